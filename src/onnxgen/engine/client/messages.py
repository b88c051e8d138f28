"""What a client and its engine tell each other, in one process or between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import OnnxgenError
from onnxgen.scheduler.config import SchedulerConfig


@dataclass(frozen=True, slots=True)
class Submit:
    """Take this request.

    Attributes:
        request_id: The client's number for it.
        request: The request.
        wants_answer: Say in an `Answer` of the same number whether it was accepted; else a refusal is an event.
    """

    request_id: int
    request: EngineRequest
    wants_answer: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request, or one of its samples."""

    request_id: int
    index: int | None
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class AskStats:
    """Say how many of everything there were."""

    answer_to: int


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Change budgets and policy."""

    answer_to: int
    config: SchedulerConfig


@dataclass(frozen=True, slots=True)
class Stop:
    """Close the core and end."""


Command = Submit | Cancel | AskStats | Reconfigure | Stop


@dataclass(frozen=True, slots=True)
class Ready:
    """The core was made."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command brought about."""

    answer_to: int
    value: Any = None
    error: OnnxgenError | None = None


@dataclass(frozen=True, slots=True)
class Stepped:
    """Events of one step.

    Attributes:
        rows: The fields of each event in their order, with the client's request number: plain tuples cross
            between processes several times faster than objects do.
    """

    rows: Sequence[tuple[Any, ...]]

    def events(self) -> list[EngineEvent]:
        """The events."""
        return [EngineEvent(*row) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Ended:
    """The core is no more, or never was; None: because it was told to stop."""

    error: OnnxgenError | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Long work began, went on or ended while the core was made.

    Attributes:
        task: Which piece of work.
        change: What happened to it.
        description: With ``start``.
        amount: The total with ``start`` (None: unknown), the units done with ``advance``.
        unit: Of the amount.
    """

    task: int
    change: Literal["start", "advance", "end"]
    description: str = ""
    amount: int | None = None
    unit: str = "bytes"


Report = Ready | Answer | Stepped | Ended | Progressed
