"""What a client and its engine tell each other, in one process or between two."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from onnxgen.backends.adapters import Adapter
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.errors import OnnxgenError, OptionError
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

    @property
    def num_samples(self) -> int:
        """How many answers the request asks for."""
        return self.request.n

    def read(self) -> EngineRequest:
        """The request."""
        return self.request


@dataclass(frozen=True, slots=True)
class SealedSubmit:
    """A `Submit` for another process, with its request pickled apart: one that cannot be read there fails alone.

    Attributes:
        request_id: See `Submit`.
        num_samples: See `Submit`.
        wants_answer: See `Submit`.
        content: The request, pickled. It may hold code of the caller's, which the other process may not find.
    """

    request_id: int
    num_samples: int
    wants_answer: bool
    content: bytes

    @classmethod
    def of(cls, command: Submit) -> SealedSubmit:
        """The same command. Raises what parts of the request raise when they are pickled."""
        content = pickle.dumps(command.request, pickle.HIGHEST_PROTOCOL)
        return cls(command.request_id, command.num_samples, command.wants_answer, content)

    def read(self) -> EngineRequest:
        """The request.

        Raises:
            OptionError: It cannot be read here.
        """
        try:
            return pickle.loads(self.content)
        except Exception as cause:
            raise OptionError(
                f"the request cannot be read in the engine's process: {cause}; define processors and samplers in a "
                "module that it can import, or run the engine in this process"
            ) from cause


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that was taken, and waited until it was made ready; the engine's side tells itself.

    Attributes:
        command: What it came with.
        request: The request.
        error: Why it cannot be made ready; None: it is.
    """

    command: Submit | SealedSubmit
    request: EngineRequest
    error: Exception | None = None


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
class AskView:
    """Say how it looks inside: so many of the last steps and of the known prefixes at most."""

    answer_to: int
    steps: int
    prefixes: int


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Change budgets and policy."""

    answer_to: int
    config: SchedulerConfig


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    """Have this adapter ready for requests."""

    answer_to: int
    adapter: Adapter


@dataclass(frozen=True, slots=True)
class UnloadAdapter:
    """Let go of the adapter of this name."""

    answer_to: int
    name: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Close the core and end."""


Ask = AskStats | AskView | Reconfigure | LoadAdapter | UnloadAdapter
"""What is answered by an `Answer` of its number."""

Command = Submit | SealedSubmit | Prepared | Cancel | Ask | Stop


@dataclass(frozen=True, slots=True)
class Ready:
    """The core was made."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command brought about."""

    answer_to: int
    value: Any = None
    error: OnnxgenError | None = None


ScoreRow = tuple[int, float, int, tuple[tuple[int, float], ...]]
"""The fields of a `TokenLogprobs`."""

Scores = tuple[ScoreRow | None, Sequence[ScoreRow | None] | None]
"""Of the token of an event, and of its prompt."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """Events of one step.

    Attributes:
        rows: The fields of each event in their order, with the client's request number, up to ``error``: plain tuples
            cross between processes several times faster than objects do.
        scores: By place in ``rows``, the fields of ``logprobs`` and ``prompt_logprobs`` of events that have any.
    """

    rows: Sequence[tuple[Any, ...]]
    scores: Mapping[int, Scores] = field(default_factory=dict[int, Scores])

    def events(self) -> list[EngineEvent]:
        """The events."""
        events = [EngineEvent(*row) for row in self.rows]
        for at, (of_token, of_prompt) in self.scores.items():
            events[at] = replace(
                events[at],
                logprobs=None if of_token is None else TokenLogprobs(*of_token),
                prompt_logprobs=None if of_prompt is None else _from_rows(of_prompt),
            )
        return events


def scores_of(event: EngineEvent) -> Scores | None:
    """What crosses of an event's log probabilities; None if it has none."""
    of_token, of_prompt = event.logprobs, event.prompt_logprobs
    if of_token is None and of_prompt is None:
        return None
    return (
        None if of_token is None else _row(of_token),
        None if of_prompt is None else [None if score is None else _row(score) for score in of_prompt],
    )


def _row(score: TokenLogprobs) -> ScoreRow:
    return score.token_id, score.logprob, score.rank, score.top


def _from_rows(rows: Sequence[ScoreRow | None]) -> tuple[TokenLogprobs | None, ...]:
    return tuple([None if row is None else TokenLogprobs(*row) for row in rows])


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


@dataclass(frozen=True, slots=True)
class Logged:
    """Something was logged in the engine's process.

    Attributes:
        logger: Name of the logger.
        level: As `logging` has it.
        text: The message.
        trace: The traceback, where there is one.
        created_s: When, in seconds since 1970.
    """

    logger: str
    level: int
    text: str
    trace: str | None
    created_s: float


Report = Ready | Answer | Stepped | Ended | Progressed | Logged
