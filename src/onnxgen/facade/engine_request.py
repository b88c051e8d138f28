"""`Request`: a session of an `Engine`, answered turn by turn, and its `EngineEvent`s; by onnxruntime-genai's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from onnxgen.engine.core import EngineCore
from onnxgen.engine.events import EngineEvent as CoreEvent
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import CapabilityError, ContextLengthError, OnnxgenError, OptionError, StateError
from onnxgen.facade.engine_codes import NO_USAGE, EngineErrorCode, EngineEventFlags, FinishReason, TurnUsage
from onnxgen.facade.stops import StopMatcher
from onnxgen.facade.tensor import Tensor
from onnxgen.facade.turn_options import TurnOptions, TurnSettings
from onnxgen.metadata.model_spec import ModelSpec

if TYPE_CHECKING:
    from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

_REASONS = {"cancelled": FinishReason.CANCELLED, "error": FinishReason.FAILED, "eos": FinishReason.EOS}


@dataclass(slots=True)
class _Turn:
    id: int
    core_id: int
    start: int
    prompt_tokens: int
    stops: StopMatcher | None = None
    detokenizer: IncrementalDetokenizer | None = None


@dataclass(frozen=True, slots=True)
class EngineServices:
    """What requests need of their engine.

    Attributes:
        core: Answers.
        spec: The model.
        max_session_tokens: The longest session, in tokens.
        listen: Send the core's events of this number to a request, None: to nobody any more.
        detokenizer: Makes a fresh one.
    """

    core: EngineCore
    spec: ModelSpec
    max_session_tokens: int
    listen: Callable[[int, Request | None], None]
    detokenizer: Callable[[], IncrementalDetokenizer]


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """A token of a turn, its end, or both.

    Attributes:
        flags: What it is about.
        request: Whose turn.
        turn_id: Which turn.
        token: The new token, part of the answer; None where there is none.
        finish_reason: Why the turn ended.
        error_code: What kind of failure ended it.
        usage: Its counts, zeros before its end.
        matched_stop_string_index: Which stop string ended it.
        error: The failure.
    """

    flags: EngineEventFlags
    request: Request
    turn_id: int
    token: int | None = None
    finish_reason: FinishReason = FinishReason.NONE
    error_code: EngineErrorCode = EngineErrorCode.NONE
    usage: TurnUsage = NO_USAGE
    matched_stop_string_index: int | None = None
    error: OnnxgenError | None = None


class Request:
    """A session: its tokens stay, and what was computed of them is kept as long as there is memory.

    Made by `Engine.create_request`. One turn at a time; for the engine's thread only.

    Args:
        services: Of the engine.
    """

    def __init__(self, services: EngineServices) -> None:
        self._services = services
        self._tokens: list[int] = []
        self._starts: dict[int, int] = {}
        self._turn: _Turn | None = None
        self._num_turns = 0
        self._closed = False

    def begin_turn(self, tokens: npt.ArrayLike | Tensor, turn_options: TurnOptions | None = None) -> int:
        """Append tokens to the session and have it answered; events come from `Engine.run`.

        Returns:
            The turn's number, from 1.

        Raises:
            StateError: A turn is not finished yet (its last event has not been given out), or the request is closed.
            OptionError: There are no tokens, or not one list of them, or options contradict each other.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: The session would become too long.
            GrammarError: The options' guidance cannot be held to.
            AdmissionError: It can never fit the cache.
        """
        self._check_open()
        if self._turn is not None:
            raise StateError(
                f"turn {self._turn.id} is not finished; run the engine until it is, or cancel it"
            )
        settings = TurnSettings() if turn_options is None else turn_options.settings
        given = np.asarray(tokens)
        if given.ndim != 1:
            raise OptionError(
                f"a turn's tokens are one list of token ids, got an array of shape {given.shape}"
            )
        prompt = given.tolist()
        if not prompt:
            raise OptionError("a turn needs at least one token, got none")
        services = self._services
        session = [*self._tokens, *prompt]
        room = services.max_session_tokens - len(session)
        if room < 1:
            raise ContextLengthError(
                f"{len(prompt)} tokens after the {len(self._tokens)} of the session leave no room for an answer within "
                f"{services.max_session_tokens} tokens; rewind, or open another request"
            )
        request = EngineRequest(
            session,
            sampling=settings.sampling(services.spec.search, num_tokens=len(session)),
            max_new_tokens=min(settings.max_generated_tokens or room, room),
            grammar=settings.grammar,
        )
        core_id = services.core.submit(request)
        self._num_turns += 1
        self._turn = _Turn(self._num_turns, core_id, len(self._tokens), len(prompt))
        if settings.stop_strings:
            self._turn.stops = StopMatcher(settings.stop_strings)
            self._turn.detokenizer = services.detokenizer()
        self._starts[self._turn.id] = self._turn.start
        self._tokens = session
        services.listen(core_id, self)
        return self._turn.id

    def cancel_turn(self, turn_id: int) -> bool:
        """End a turn; its last event comes with the next `Engine.run`. False if it has ended, or never was."""
        self._check_open()
        if self._turn is None or self._turn.id != turn_id:
            return False
        return self._services.core.cancel(self._turn.core_id)

    def rewind_to_start_of_turn(self, turn_id: int) -> None:
        """Drop a turn and all later ones; what was computed before stays.

        Raises:
            StateError: A turn is not finished yet, or there is no such turn.
        """
        self._check_open()
        if self._turn is not None:
            raise StateError(f"turn {self._turn.id} is not finished; run the engine until it is, then rewind")
        if turn_id not in self._starts:
            raise StateError(f"there is no turn {turn_id} to rewind to; turns are {list(self._starts)}")
        self._tokens = self._tokens[: self._starts[turn_id]]
        self._starts = {turn: start for turn, start in self._starts.items() if turn < turn_id}

    def fork(self) -> Request:
        """Another request with the same session, turns included, which shares what was computed of it.

        Not part of onnxruntime-genai's engine.

        Raises:
            StateError: A turn is not finished yet, or the request is closed.
        """
        self._check_open()
        if self._turn is not None:
            raise StateError(f"turn {self._turn.id} is not finished; run the engine until it is, then fork")
        other = Request(self._services)
        other._tokens = list(self._tokens)
        other._starts, other._num_turns = dict(self._starts), self._num_turns
        return other

    def set_draft_tokens(self, tokens: Sequence[int]) -> NoReturn:
        """Not supported: raises `CapabilityError`."""
        raise CapabilityError(
            f"{len(tokens)} draft tokens were given; guesses come from what EngineConfig.speculation names"
        )

    def close(self) -> None:
        """End the session, a running turn included. Calling it twice is harmless."""
        if self._turn is not None:
            self._services.core.cancel(self._turn.core_id)
            self._services.listen(self._turn.core_id, None)
        self.abandon()

    def abandon(self) -> None:
        """End the session without a word to the engine, which has ended: for `Engine`."""
        self._turn = None
        self._closed = True

    def receive(self, event: CoreEvent) -> EngineEvent:
        """What an event of the core means for the turn: for `Engine`."""
        turn = self._turn
        assert turn is not None
        token = None if event.is_eos else event.token_id
        matched = None
        if token is not None:
            self._tokens.append(token)
            matched = _matched_stop(turn, token)
        if matched is not None and event.finish_reason is None:
            self._services.core.cancel(turn.core_id, reason="stop")
        generated = len(self._tokens) - turn.start - turn.prompt_tokens
        if matched is None and event.finish_reason is None:
            return EngineEvent(EngineEventFlags.TOKEN, self, turn.id, token)
        self._turn = None
        self._services.listen(turn.core_id, None)
        failed = event.error is not None
        flags = EngineEventFlags.TURN_FINISHED
        flags |= EngineEventFlags.NONE if token is None else EngineEventFlags.TOKEN
        flags |= EngineEventFlags.FAILED if failed else EngineEventFlags.NONE
        cached = 0 if event.usage is None else max(0, event.usage.cached_tokens - turn.start)
        return EngineEvent(
            flags,
            self,
            turn.id,
            token,
            finish_reason=self._finish_reason(event, matched),
            error_code=EngineErrorCode.ENGINE_EXECUTION_FAILURE if failed else EngineErrorCode.NONE,
            usage=TurnUsage(turn.prompt_tokens, generated, cached),
            matched_stop_string_index=matched,
            error=event.error,
        )

    def _finish_reason(self, event: CoreEvent, matched: int | None) -> FinishReason:
        if matched is not None:
            return FinishReason.STOP_STRING
        if event.finish_reason == "length":
            full = len(self._tokens) >= self._services.max_session_tokens
            return FinishReason.MAX_SESSION_TOKENS if full else FinishReason.MAX_GENERATED_TOKENS
        return _REASONS[event.finish_reason or "error"]

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("this request was closed; create another with Engine.create_request()")


def _matched_stop(turn: _Turn, token: int) -> int | None:
    if turn.stops is None or turn.detokenizer is None:
        return None
    turn.stops.push(turn.detokenizer.push(token))
    return turn.stops.matched
