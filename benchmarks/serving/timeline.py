"""When the tokens of some requests came, and what may be said of that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Answer:
    """The answer to one request; seconds count from the start of its scenario.

    Attributes:
        prompt_tokens: Length of the whole prompt.
        arrived_s: When the request arrived.
        arrived_step: Steps before its arrival.
        tokens: Its tokens.
        token_s: When each came.
        token_step: In which step.
        cached_tokens: Prompt tokens that were not computed, if the program says so.
    """

    prompt_tokens: int = 0
    arrived_s: float = 0.0
    arrived_step: int = 0
    tokens: list[int] = field(default_factory=list)
    token_s: list[float] = field(default_factory=list)
    token_step: list[int] = field(default_factory=list)
    cached_tokens: int | None = None

    @property
    def first_s(self) -> float:
        """Seconds from its arrival to its first token."""
        return self.token_s[0] - self.arrived_s

    @property
    def first_steps(self) -> int:
        """Steps from its arrival to its first token: 1 if the next step brought it."""
        return self.token_step[0] - self.arrived_step + 1

    @property
    def pauses_s(self) -> list[float]:
        """Seconds between its tokens."""
        return [after - before for before, after in pairwise(self.token_s)]

    def pauses_within(self, begin_s: float, end_s: float) -> list[float]:
        """Those of them that overlap with a time."""
        times = pairwise(self.token_s)
        return [after - before for before, after in times if after > begin_s and before < end_s]


@dataclass(frozen=True)
class StepTimes:
    """One step: its whole length, sequences that got a token, and named parts as far as the program tells them."""

    seconds: float
    num_tokens: int
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Timeline:
    """All answers of a scenario, in the order of its requests."""

    answers: Sequence[Answer]
    steps: Sequence[StepTimes] = ()

    def to_json(self) -> dict[str, Any]:
        """What a worker answers."""
        return {
            "answers": [asdict(answer) for answer in self.answers],
            "steps": [asdict(step) for step in self.steps],
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Timeline:
        """The inverse of `to_json`."""
        return Timeline(
            [Answer(**answer) for answer in values["answers"]],
            [StepTimes(**step) for step in values["steps"]],
        )

    @property
    def seconds(self) -> float:
        """From the first arrival to the last token."""
        return max(a.token_s[-1] for a in self.answers) - min(a.arrived_s for a in self.answers)

    def throughput(self) -> dict[str, float]:
        """Tokens per second of all requests together."""
        new = sum(len(answer.tokens) for answer in self.answers)
        prompt = sum(answer.prompt_tokens for answer in self.answers)
        return {"new_rate": new / self.seconds, "total_rate": (new + prompt) / self.seconds}

    def latencies(self) -> dict[str, float]:
        """Time to first token and between tokens, in milliseconds."""
        first = [answer.first_s for answer in self.answers]
        pauses = [pause for answer in self.answers for pause in answer.pauses_s]
        return {**percentiles("ttft", first, (50, 90, 99)), **percentiles("itl", pauses, (50, 99))}


def percentiles(name: str, seconds: Sequence[float], percents: Sequence[int]) -> dict[str, float]:
    """Milliseconds that so many percent of values do not exceed, by ``name_pNN_ms``; none of no values."""
    return {f"{name}_p{percent}_ms": 1e3 * percentile(seconds, percent) for percent in percents if seconds}


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of ``values`` that at least so many percent of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
