"""What an `Engine` reports, by onnxruntime-genai's names: `EngineEvent` and its parts, in an `EngineEventBuffer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from onnxgen.errors import OnnxgenError, OptionError

if TYPE_CHECKING:
    from onnxgen.facade.engine_request import Request


class FinishReason(IntEnum):
    """Why a turn ended."""

    NONE = 0
    EOS = 1
    STOP_STRING = 2
    MAX_GENERATED_TOKENS = 3
    MAX_SESSION_TOKENS = 4
    CANCELLED = 5
    FAILED = 6


class EngineEventFlags(IntFlag):
    """What an event is about. ``CAPACITY_BLOCKED`` and ``RETRYABLE`` never occur: requests wait, steps are tried again."""

    NONE = 0
    TOKEN = 1
    TURN_FINISHED = 2
    CAPACITY_BLOCKED = 4
    FAILED = 8
    RETRYABLE = 16


class EngineErrorCode(IntEnum):
    """What kind of failure ended a turn; ``EngineEvent.error`` has the error itself."""

    NONE = 0
    CAPACITY_DEFERRED = 1
    EXECUTION_CAPACITY_EXCEEDED = 2
    RETRYABLE_EXECUTION = 3
    REQUEST_UNSERVICEABLE = 4
    ENGINE_CONTRACT_FAILURE = 5
    ENGINE_EXECUTION_FAILURE = 6


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """Tokens of one turn, known with its last event.

    Attributes:
        prompt_tokens: Tokens that `Request.begin_turn` was given.
        generated_tokens: Tokens of the answer, without the end-of-sequence token.
        cached_prompt_tokens: How many of the prompt's tokens another request had computed already.
    """

    prompt_tokens: int = 0
    generated_tokens: int = 0
    cached_prompt_tokens: int = 0


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
    usage: TurnUsage = TurnUsage()
    matched_stop_string_index: int | None = None
    error: OnnxgenError | None = None


class EngineEventBuffer:
    """Room for events, filled by `Engine.run`.

    Args:
        capacity: How many at most.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise OptionError(f"an event buffer holds at least 1 event, got a capacity of {capacity}")
        self.capacity = capacity
        self._events: Sequence[EngineEvent] = ()

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, index: int) -> EngineEvent:
        return self._events[index]

    def __iter__(self) -> Iterator[EngineEvent]:
        return iter(self._events)

    def fill(self, events: Sequence[EngineEvent]) -> None:
        """Hold these events instead of those before."""
        assert len(events) <= self.capacity
        self._events = events
