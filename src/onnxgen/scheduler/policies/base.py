"""What a scheduling policy decides, and a queue to decide it with."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Protocol

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job


class Policy(Protocol):
    """Keeps the jobs that wait for admission, and says who goes first."""

    def push(self, job: Job) -> None:
        """``job`` waits from now on."""
        ...

    def discard(self, job: Job) -> None:
        """``job`` waits no longer: it was admitted or removed."""
        ...

    def order(self) -> Iterator[Job]:
        """All who wait, who goes first first. Jobs may be discarded and charged for meanwhile."""
        ...

    def rank(self, job: Job) -> float:
        """Its claim from admission on: of two running jobs the one with the smaller rank gives way last."""
        ...

    def charge(self, job: Job, num_tokens: int) -> None:
        """``job`` uses so many tokens: its prompt's when it is admitted, then the answer's one by one."""
        ...


PolicyFactory = Callable[[SchedulerConfig], Policy]


class RankedQueue:
    """Jobs in the order of a rank that each keeps while it waits; equal ones in the order of arrival."""

    def __init__(self) -> None:
        """An empty queue."""
        self._entries: list[tuple[float, int, Job]] = []

    def __len__(self) -> int:
        """How many wait."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Job]:
        """In order; jobs may be discarded meanwhile."""
        at = 0
        while at < len(self._entries):
            rank, arrival, job = self._entries[at]
            yield job
            at = bisect_right(self._entries, (rank, arrival), key=_order)

    def push(self, job: Job, rank: float) -> None:
        """``job`` waits with ``rank``; the smallest is first."""
        insort(self._entries, (rank, job.arrival, job))

    def discard(self, job: Job, rank: float) -> None:
        """``job``, pushed with ``rank``, waits no longer."""
        at = bisect_left(self._entries, (rank, job.arrival), key=_order)
        assert self._entries[at][2] is job
        del self._entries[at]


def _order(entry: tuple[float, int, Job]) -> tuple[float, int]:
    return entry[0], entry[1]
