"""Many clients for minutes: every answer is checked, and memory is watched."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.http.answers import Answer
from benchmarks.http.figures import require_right
from benchmarks.http.load import Tally, Target, ask_all, ask_for_a_while, run_clients
from benchmarks.http.processes import ServerProcess, rss_mb
from benchmarks.http.work import Question, recognizable
from benchmarks.measuring import Watch
from benchmarks.serving.timeline import percentiles

_EVERY_S = 5.0


@dataclass(frozen=True)
class Sample:
    """Memory of each of a server's processes, in MB, so many seconds after the beginning."""

    after_s: float
    rss_mb: Sequence[float]


@dataclass
class Endurance:
    """What came of it.

    Attributes:
        clients: How many asked at once.
        seconds: For how long.
        tally: What they saw.
        figures: Tokens per second, and times of first pieces and between pieces.
        samples: Memory, in the order of time.
        changed_alone: Answers that one client alone got otherwise after it than before it.
        foreign_cpus: Processors that other processes took meanwhile.
    """

    clients: int
    seconds: float
    tally: Tally
    figures: dict[str, float]
    samples: list[Sample] = field(default_factory=list)
    changed_alone: int = 0
    foreign_cpus: float = 0.0

    @property
    def growth_mb_per_min(self) -> float:
        """Slope of memory over the second half, by least squares."""
        half = [s for s in self.samples if s.after_s >= self.samples[-1].after_s / 2]
        return 60 * slope([s.after_s for s in half], [sum(s.rss_mb) for s in half])

    def to_json(self) -> dict[str, Any]:
        """Everything, with the growth."""
        return {**asdict(self), "growth_mb_per_min": self.growth_mb_per_min}


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """How much a straight line through the points rises for each unit of x; 0 of fewer than two different x."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


class Checker:
    """Knows the answers that one client alone gets, and names what differs from them.

    Args:
        questions: What may be asked.
        alone: The answers to them.
    """

    def __init__(self, questions: Sequence[Question], alone: Sequence[Answer]) -> None:
        self._questions, self._alone = questions, [answer.text for answer in alone]

    def problems(self, number: int, answer: Answer) -> list[str]:
        """What is wrong with an answer to a question, beside its form."""
        text, right = answer.text, self._alone[number]
        if answer.left:
            return [] if right.startswith(text) else [_difference(text, right)]
        found: list[str] = []
        if answer.new_tokens != self._questions[number].new_tokens:
            found.append(f"{answer.new_tokens} tokens, {self._questions[number].new_tokens} were asked for")
        if text != right:
            others = [other for other, alone in enumerate(self._alone) if alone == text]
            found.append(f"it is the answer to question {others[0]}" if others else _difference(text, right))
        return found


def with_answers_of_their_own(
    questions: Sequence[Question], alone: Sequence[Answer]
) -> tuple[list[Question], list[Answer]]:
    """The questions, with their answers, that no other question shares its answer with: a crossed one would not show."""
    times = Counter(answer.text for answer in alone)
    kept = [pair for pair in zip(questions, alone, strict=True) if times[pair[1].text] == 1]
    return [question for question, _ in kept], [answer for _, answer in kept]


def _difference(text: str, right: str) -> str:
    same = next(
        (n for n, (a, b) in enumerate(zip(text, right, strict=False)) if a != b), min(len(text), len(right))
    )
    return (
        f"from character {same} on it is {text[same : same + 40]!r}, alone it is {right[same : same + 40]!r}"
    )


def endure(
    server: ServerProcess,
    target: Target,
    *,
    clients: int,
    seconds: float,
    leaving: float,
    new_tokens: int,
    seed: int,
    say: Callable[[str], None],
) -> Endurance:
    """Ask with so many clients for so long.

    Raises:
        WrongAnswersError: Already one client alone is not answered right.
    """
    questions = recognizable(clients, new_tokens=new_tokens)
    alone = run_clients(_alone(target, questions))
    questions, alone = with_answers_of_their_own(questions, alone)
    checker, pieces = Checker(questions, alone), _Pieces()
    say(f"{len(questions)} answers alone; now {clients} clients for {seconds:g} s")
    samples: list[Sample] = []

    async def watched() -> Tally:
        watching = asyncio.create_task(_watch(server, samples))
        try:
            return await ask_for_a_while(
                target,
                questions,
                clients=clients,
                seconds=seconds,
                check=checker.problems,
                seen=pieces.add,
                leaving=leaving,
                seed=seed,
            )
        finally:
            watching.cancel()

    began = time.perf_counter()
    with Watch(server.pids) as watch:
        tally = run_clients(watched())
    took = time.perf_counter() - began
    again = run_clients(_alone(target, questions))
    changed = sum(one.text != other.text for one, other in zip(alone, again, strict=True))
    return Endurance(clients, took, tally, pieces.figures(tally, took), samples, changed, watch.foreign_cpus)


async def _alone(target: Target, questions: Sequence[Question]) -> list[Answer]:
    answers = await ask_all(target, questions, at_once=1)
    require_right(answers, [question.new_tokens for question in questions])
    return answers


async def _watch(server: ServerProcess, samples: list[Sample]) -> None:
    began = time.perf_counter()
    while True:
        sizes = [round(rss_mb([pid]), 2) for pid in server.pids]
        samples.append(Sample(round(time.perf_counter() - began, 1), sizes))
        await asyncio.sleep(_EVERY_S)


class _Pieces:
    def __init__(self) -> None:
        self._first: list[float] = []
        self._pauses: list[float] = []

    def add(self, answer: Answer) -> None:
        if answer.piece_s:
            self._first.append(answer.piece_s[0] - answer.sent_s)
            self._pauses += [after - before for before, after in pairwise(answer.piece_s)]

    def figures(self, tally: Tally, seconds: float) -> dict[str, float]:
        times = {**percentiles("ttft", self._first, (50, 99)), **percentiles("itl", self._pauses, (50, 99))}
        return {"new_rate": tally.new_tokens / seconds, **times}
