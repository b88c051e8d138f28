"""Urgent jobs first, and who waits becomes more urgent."""

from __future__ import annotations

from collections.abc import Iterator

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies.base import RankedQueue


class PriorityPolicy:
    """Smaller priorities first, equal ones by arrival.

    With ``aging_steps`` a job gains one priority in so many steps of waiting. Since all gain at the same pace,
    their order never changes while they wait, and a rank that is fixed on arrival says it all::

        rank = step of arrival + priority * aging_steps

    So nobody starves: jobs that come later than this step, with priority 0, do not go before it.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        """Takes ``aging_steps`` from ``config``."""
        self._aging_steps = config.aging_steps
        self._queue = RankedQueue()

    def push(self, job: Job) -> None:
        """See `Policy`."""
        self._queue.push(job, self.rank(job))

    def discard(self, job: Job) -> None:
        """See `Policy`."""
        self._queue.discard(job, self.rank(job))

    def order(self) -> Iterator[Job]:
        """By rank, then by arrival."""
        return iter(self._queue)

    def rank(self, job: Job) -> float:
        """The step at which a job of priority 0 would have had to come to be as urgent."""
        if self._aging_steps is None:
            return job.priority
        return job.since + job.priority * self._aging_steps

    def charge(self, job: Job, num_tokens: int) -> None:
        """Nobody keeps accounts here."""
