"""`Answer`: one answer while it grows, from tokens to pieces of text, counts and durations."""

from __future__ import annotations

from collections.abc import Callable

from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.facade.results import Chunk, Completion, Timings, Usage
from onnxgen.facade.stops import StopMatcher
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

Clock = Callable[[], float]


class Answer:
    """One answer while it grows.

    Args:
        detokenizer: A fresh one.
        stops: A fresh matcher.
        index: Which prompt is answered.
        prompt_tokens: Tokens of the prompt.
        load_s: See `Timings`.
        clock: Seconds from any beginning.
        started: Reading of the clock when the answer was asked for.
    """

    def __init__(
        self,
        *,
        detokenizer: IncrementalDetokenizer,
        stops: StopMatcher,
        index: int,
        prompt_tokens: int,
        load_s: float | None,
        clock: Clock,
        started: float,
    ) -> None:
        self._detokenizer = detokenizer
        self._stops = stops
        self._index = index
        self._prompt_tokens = prompt_tokens
        self._load_s = load_s
        self._clock = clock
        self._started = started
        self._cached_tokens = 0
        self._first: float | None = None
        self._last: float | None = None
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._unsent: list[int] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def push(self, event: EngineEvent) -> Chunk | None:
        """Take what the engine says of it; returns a piece of the answer if there is text to show or it has ended.

        Raises:
            OnnxgenError: What the answer ended with.
        """
        if event.error is not None:
            raise event.error
        if event.usage is not None:
            self._cached_tokens = event.usage.cached_tokens
        shown = "" if event.token_id is None else self._push_token(event.token_id, is_eos=event.is_eos)
        if self._stops.stopped:
            return self._chunk(shown, "stop")
        if event.finish_reason is not None:
            return self.finish(event.finish_reason, shown=shown)
        return self._chunk(shown, None) if shown else None

    def _push_token(self, token_id: int, *, is_eos: bool) -> str:
        """Take a token; returns the text that may be shown now."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        if is_eos:
            return ""
        self._last = now
        self._token_ids.append(token_id)
        self._unsent.append(token_id)
        shown = self._stops.push(self._detokenizer.push(token_id))
        if shown:
            self._text.append(shown)
        return shown

    def finish(self, reason: FinishReason, *, shown: str = "") -> Chunk:
        """End the answer: what is held back is shown, unless it completes a stop text."""
        rest = self._stops.push(self._detokenizer.flush())
        if self._stops.stopped:
            reason = "stop"
        rest += self._stops.flush()
        if rest:
            self._text.append(rest)
        return self._chunk(shown + rest, reason)

    def _chunk(self, text: str, reason: FinishReason | None) -> Chunk:
        token_ids, self._unsent = tuple(self._unsent), []
        completion = None if reason is None else self._completion(reason)
        return Chunk(text, token_ids, self._index, reason, completion)

    def _completion(self, reason: FinishReason) -> Completion:
        count = len(self._token_ids)
        usage = Usage(self._prompt_tokens, count, self._cached_tokens)
        return Completion(self.text, tuple(self._token_ids), reason, usage, self._timings(count))

    def _timings(self, count: int) -> Timings:
        ttft = prefill = decode = None
        if self._first is not None:
            ttft = self._first - self._started
            prefill = _rate(self._prompt_tokens - self._cached_tokens, ttft)
            if self._last is not None:
                decode = _rate(count - 1, self._last - self._first)
        return Timings(self._load_s, ttft, prefill, decode)


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count > 0 and seconds > 0 else None
