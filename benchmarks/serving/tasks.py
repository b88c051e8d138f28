"""What is measured of each server."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.peers.worker import Worker
from benchmarks.serving.scenario import Scenario, conversation, joining, mixed, shared_prompt, steady
from benchmarks.serving.timeline import StepTimes, Timeline, percentiles

Columns = Mapping[str, tuple[str, bool]]
"""Metrics in the order of a table's columns, with their headings; True where less is better."""


class Task(Protocol):
    """Something that a server does, and figures of it."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def about(self) -> str:
        """A sentence on what is asked for."""
        ...

    @property
    def columns(self) -> Columns:
        """Its metrics, without its name."""
        ...

    @property
    def forms(self) -> Collection[str] | None:
        """Which programs can do it; None: all."""
        ...

    @property
    def most_rounds(self) -> int:
        """More than so many tell nothing new."""
        ...

    def try_out(self, worker: Worker) -> None:
        """A short turn."""
        ...

    def run(self, worker: Worker) -> dict[str, float]:
        """Do it once; values by metric."""
        ...


def play(worker: Worker, scenario: Scenario) -> Timeline:
    """Play a scenario on a worker."""
    return Timeline.from_json(worker.ask("play", scenario=scenario.to_json()))


def _warm(worker: Worker, scenario: Scenario) -> None:
    play(worker, scenario.cut(prompt=64, answer=4))


@dataclass(frozen=True)
class Parallel:
    """Requests of mixed lengths, all at once or as they come.

    Attributes:
        count: How many.
        requests_per_s: Of a Poisson process; None: all at once.
    """

    count: int
    requests_per_s: float | None = None
    forms: Collection[str] | None = None
    most_rounds: int = 9

    @property
    def name(self) -> str:
        return f"parallel.{self.count}"

    @property
    def scenario(self) -> Scenario:
        """What is asked for."""
        return mixed(self.count, requests_per_s=self.requests_per_s)

    @property
    def about(self) -> str:
        come = "at once" if self.requests_per_s is None else f"at random, {self.requests_per_s:g} a second"
        lengths = [f"{len(one.prompt)}+{one.new_tokens}" for one in self.scenario.requests]
        return (
            f"{self.count} requests of mixed lengths, {come}: {self.scenario.prompt_tokens} prompt tokens and "
            f"{self.scenario.new_tokens} new ones ({', '.join(lengths)})"
        )

    @property
    def columns(self) -> Columns:
        return {
            "new_rate": ("new tok/s", False),
            "total_rate": ("all tok/s", False),
            **{f"ttft_p{p}_ms": (f"first token p{p}, ms", True) for p in (50, 90, 99)},
            **{f"itl_p{p}_ms": (f"between tokens p{p}, ms", True) for p in (50, 99)},
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, self.scenario)

    def run(self, worker: Worker) -> dict[str, float]:
        timeline = play(worker, self.scenario)
        return {**timeline.throughput(), **timeline.latencies()}


@dataclass(frozen=True)
class SharedPrompt:
    """Requests with one system prompt, one after the other or all at once; prefixes are reused."""

    in_turn: bool
    forms: Collection[str] | None = None
    most_rounds: int = 9

    @property
    def name(self) -> str:
        return "prefix.turns" if self.in_turn else "prefix.together"

    @property
    def about(self) -> str:
        order = "one after the other" if self.in_turn else "all at once"
        return f"16 requests of 512 shared and 32 own prompt tokens and 16 new ones, {order}"

    @property
    def columns(self) -> Columns:
        return {
            "cold_ms": ("first token of the first, ms", True),
            "later_ms": ("of the others, median, ms", True),
            "gain": ("first / others", False),
            "seconds": ("all answers, s", True),
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, shared_prompt(in_turn=self.in_turn, prefix_reuse=True))

    def run(self, worker: Worker) -> dict[str, float]:
        timeline = play(worker, shared_prompt(in_turn=self.in_turn, prefix_reuse=True))
        cold, later = 1e3 * timeline.answers[0].first_s, _median_first_ms(timeline)
        return {"cold_ms": cold, "later_ms": later, "gain": cold / later, "seconds": timeline.seconds}


@dataclass(frozen=True)
class Unshared:
    """The same requests with reuse of prefixes and without: ours only."""

    forms: Collection[str] | None = ("onnxgen",)
    most_rounds: int = 9
    name: str = "prefix.without"

    @property
    def about(self) -> str:
        return "the requests of the other prefix tasks, with reuse of prefixes and without"

    @property
    def columns(self) -> Columns:
        return {
            "turns_gain": ("in turns: first token of the others, without / with", False),
            "turns_ms": ("without, ms", True),
            "together_gain": ("at once: all answers, without / with", False),
            "together_seconds": ("without, s", True),
            "same": ("equal answers, %", False),
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, shared_prompt(in_turn=False, prefix_reuse=False))

    def run(self, worker: Worker) -> dict[str, float]:
        turns, plain_turns, together, plain_together = (
            play(worker, shared_prompt(in_turn=in_turn, prefix_reuse=reuse))
            for in_turn in (True, False)
            for reuse in (True, False)
        )
        pairs = [
            *zip(turns.answers, plain_turns.answers, strict=True),
            *zip(together.answers, plain_together.answers, strict=True),
        ]
        return {
            "turns_gain": _median_first_ms(plain_turns) / _median_first_ms(turns),
            "turns_ms": _median_first_ms(plain_turns),
            "together_gain": plain_together.seconds / together.seconds,
            "together_seconds": plain_together.seconds,
            "same": 100 * statistics.mean(one.tokens == other.tokens for one, other in pairs),
        }


def _median_first_ms(timeline: Timeline) -> float:
    """Of all answers but the first."""
    return 1e3 * statistics.median(answer.first_s for answer in timeline.answers[1:])


@dataclass(frozen=True)
class Late:
    """A request joins 8 that decode.

    Attributes:
        prompt: Its prompt tokens.
        step_tokens: The most tokens of a step.
    """

    prompt: int
    step_tokens: int
    forms: Collection[str] | None = None
    most_rounds: int = 9

    @property
    def name(self) -> str:
        return f"late.{self.prompt}.{self.step_tokens}"

    @property
    def about(self) -> str:
        return f"a request of {self.prompt} prompt tokens joins 8 that decode, steps of at most {self.step_tokens} tokens"

    @property
    def columns(self) -> Columns:
        return {
            "ttft_ms": ("its first token, ms", True),
            "steps": ("steps to it", True),
            "others_p50_ms": ("between tokens of the others p50, ms", True),
            "others_p99_ms": ("p99, ms", True),
            "others_max_ms": ("max, ms", True),
            "stall_p50_ms": ("median until it had its token, ms", True),
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, joining(self.prompt, step_tokens=self.step_tokens))

    def run(self, worker: Worker) -> dict[str, float]:
        *others, late = play(worker, joining(self.prompt, step_tokens=self.step_tokens)).answers
        pauses = [pause for answer in others for pause in answer.pauses_s]
        stalls = [p for a in others for p in a.pauses_within(late.arrived_s, late.token_s[0])]
        return {
            "ttft_ms": 1e3 * late.first_s,
            "steps": late.first_steps,
            **percentiles("others", pauses, (50, 99)),
            "others_max_ms": 1e3 * max(pauses),
            "stall_p50_ms": 1e3 * statistics.median(stalls),
        }


@dataclass(frozen=True)
class Overhead:
    """Time of decode steps that is not the backend's: ours only, who know both."""

    count: int
    forms: Collection[str] | None = ("onnxgen",)
    most_rounds: int = 9

    @property
    def name(self) -> str:
        return f"overhead.{self.count}"

    @property
    def about(self) -> str:
        return f"decode steps of {self.count} sequences, medians: what is done outside the backend"

    @property
    def columns(self) -> Columns:
        return {
            "outside_us": ("outside the backend, us", True),
            **{f"{part}_us": (f"{part}, us", True) for part in ("plan", "pack", "sample", "rest")},
            "backend_us": ("backend, us", True),
            "share": ("outside, % of a step", True),
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, steady(self.count))

    def run(self, worker: Worker) -> dict[str, float]:
        # the first steps are prompts, the last ones lack those that are done
        steps = [step for step in play(worker, steady(self.count)).steps if step.num_tokens == self.count]
        return _overhead(steps[1:])


def _overhead(steps: Sequence[StepTimes]) -> dict[str, float]:
    def median_us(seconds: Callable[[StepTimes], float]) -> float:
        return 1e6 * statistics.median(map(seconds, steps))

    return {
        "outside_us": median_us(lambda step: step.seconds - step.parts["backend"]),
        **{
            f"{part}_us": median_us(lambda step, p=part: step.parts[p]) for part in ("plan", "pack", "sample")
        },
        "rest_us": median_us(lambda step: step.seconds - sum(step.parts.values())),
        "backend_us": median_us(lambda step: step.parts["backend"]),
        "share": 100 * statistics.median(1 - step.parts["backend"] / step.seconds for step in steps),
    }


@dataclass(frozen=True)
class Chat:
    """A conversation whose turns bring everything before them along."""

    turns: int = 5
    forms: Collection[str] | None = None
    most_rounds: int = 9
    name: str = "chat"

    @property
    def about(self) -> str:
        return f"a conversation of {self.turns} turns; tokens computed are those of the prompt that no turn before had computed"

    @property
    def columns(self) -> Columns:
        turns = range(1, self.turns + 1)
        return {
            **{f"turn{turn}_ms": (f"turn {turn}: first token, ms", True) for turn in turns},
            **{f"turn{turn}_computed": (f"turn {turn}: tokens computed", True) for turn in turns},
        }

    def try_out(self, worker: Worker) -> None:
        _warm(worker, conversation(self.turns))

    def run(self, worker: Worker) -> dict[str, float]:
        answers = play(worker, conversation(self.turns)).answers
        first = {f"turn{turn}_ms": 1e3 * answer.first_s for turn, answer in enumerate(answers, 1)}
        computed = {
            f"turn{turn}_computed": answer.prompt_tokens - answer.cached_tokens
            for turn, answer in enumerate(answers, 1)
            if answer.cached_tokens is not None
        }
        return first | computed


@dataclass(frozen=True)
class Endurance:
    """Memory over many requests, of which some are cancelled, refused or fail: ours only."""

    requests: int = 500
    every: int = 50
    forms: Collection[str] | None = ("onnxgen",)
    most_rounds: int = 1
    name: str = "memory"

    @property
    def about(self) -> str:
        return (
            f"{self.requests} requests of 8 to 64 prompt tokens and up to 72 new ones, a fifth cancelled on the way, a tenth "
            f"made to fail and a tenth refused; when none is left after each {self.every}"
        )

    @property
    def columns(self) -> Columns:
        sent = range(self.every, self.requests + 1, self.every)
        return {
            **{f"rss_{count}_mb": (f"RSS after {count}, MB", True) for count in sent},
            "blocks_in_use": ("blocks in use, most", True),
            "blocks_cached": ("blocks kept for prompts, most", True),
            **{reason: (reason, True) for reason in ("length", "cancelled", "error", "refused", "preempted")},
        }

    def try_out(self, worker: Worker) -> None:
        self._samples(worker, self.every)

    def run(self, worker: Worker) -> dict[str, float]:
        samples = self._samples(worker, self.requests)
        memory = {f"rss_{sample['requests']}_mb": sample["rss_mb"] for sample in samples}
        return {
            **{metric: value for metric, value in memory.items() if value is not None},
            "blocks_in_use": max(sample["blocks_in_use"] for sample in samples),
            "blocks_cached": max(sample["blocks_cached"] for sample in samples),
            **samples[-1]["ended"],
        }

    def _samples(self, worker: Worker, requests: int) -> list[dict[str, Any]]:
        return worker.ask("endure", requests=requests, every=self.every, seed=1)["samples"]


def all_tasks(requests_per_s: float | None = None) -> list[Task]:
    """Everything, in the order of the page.

    Args:
        requests_per_s: How mixed requests come; None: all at once.
    """
    return [
        *(Parallel(count, requests_per_s) for count in (1, 4, 8, 16)),
        Parallel(32, requests_per_s, most_rounds=1),  # a minute
        SharedPrompt(in_turn=True),
        SharedPrompt(in_turn=False, forms=("onnxgen", "openvino")),  # llama.cpp's slots share nothing
        Unshared(),
        Late(64, 512),
        *(Late(2048, step_tokens) for step_tokens in (256, 512, 4096)),
        *(Overhead(count) for count in (1, 4, 16, 32)),
        Chat(),
        Endurance(),
    ]
