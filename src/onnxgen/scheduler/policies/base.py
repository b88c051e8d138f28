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
        entry = self.after(None)
        while entry is not None:
            yield entry[2]
            entry = self.after(entry)

    def push(self, job: Job, rank: float) -> None:
        """``job`` waits with ``rank``; the smallest is first."""
        insort(self._entries, (rank, job.arrival, job))

    def discard(self, job: Job, rank: float) -> None:
        """``job``, pushed with ``rank``, waits no longer."""
        at = bisect_left(self._entries, (rank, job.arrival), key=_order)
        assert self._entries[at][2] is job
        del self._entries[at]

    def after(self, entry: tuple[float, int, Job] | None) -> tuple[float, int, Job] | None:
        """The entry that follows ``entry``, which may be gone itself; of None: the first one."""
        at = 0 if entry is None else bisect_right(self._entries, _order(entry), key=_order)
        return self._entries[at] if at < len(self._entries) else None


def _order(entry: tuple[float, int, Job]) -> tuple[float, int]:
    return entry[0], entry[1]
