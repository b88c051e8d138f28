"""What the events of an `Engine` are made of, by onnxruntime-genai's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag


class FinishReason(IntEnum):
    """Why a turn ended."""

    NONE = 0
    EOS = 1
    STOP_STRING = 2
    MAX_GENERATED_TOKENS = 3
    MAX_SESSION_TOKENS = 4
    CANCELLED = 5
    FAILED = 6

    __str__ = Enum.__str__


class EngineEventFlags(IntFlag):
    """What an event is about. ``CAPACITY_BLOCKED`` and ``RETRYABLE`` never occur: requests wait, steps are tried again."""

    NONE = 0
    TOKEN = 1
    TURN_FINISHED = 2
    CAPACITY_BLOCKED = 4
    FAILED = 8
    RETRYABLE = 16

    __str__ = Enum.__str__


class EngineErrorCode(IntEnum):
    """What kind of failure ended a turn; ``EngineEvent.error`` has the error itself."""

    NONE = 0
    CAPACITY_DEFERRED = 1
    EXECUTION_CAPACITY_EXCEEDED = 2
    RETRYABLE_EXECUTION = 3
    REQUEST_UNSERVICEABLE = 4
    ENGINE_CONTRACT_FAILURE = 5
    ENGINE_EXECUTION_FAILURE = 6

    __str__ = Enum.__str__


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


NO_USAGE = TurnUsage()
"""Of a turn that has not ended."""
