"""First come, first served."""

from __future__ import annotations

from collections.abc import Iterator

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies.base import RankedQueue


class FcfsPolicy:
    """Who came first goes first and gives way last. Nobody starves: only those who came earlier go before."""

    def __init__(self, config: SchedulerConfig) -> None:
        """Takes nothing from ``config``."""
        self._queue = RankedQueue()

    def push(self, job: Job) -> None:
        """See `Policy`."""
        self._queue.push(job, self.rank(job))

    def discard(self, job: Job) -> None:
        """See `Policy`."""
        self._queue.discard(job, self.rank(job))

    def order(self) -> Iterator[Job]:
        """By arrival."""
        return iter(self._queue)

    def rank(self, job: Job) -> float:
        """Its place in the order of arrival."""
        return job.arrival

    def charge(self, job: Job, num_tokens: int) -> None:
        """Nobody keeps accounts here."""
