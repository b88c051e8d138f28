"""Tenants get tokens in proportion to their weights."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies.base import RankedQueue

_Head = tuple[float, int, Job, Iterator[Job]]
"""What a tenant used, arrival of its first job, that job, and those behind it."""


class FairPolicy:
    """The tenant that had the least for its weight goes first; jobs of one tenant go by arrival.

    Each tenant has a counter of what it used, divided by its weight: a prompt's tokens that must be computed
    when the job is admitted, the answer's one by one. Of two tenants that always have jobs waiting the counters
    never differ by more than one admitted prompt and the answers of all jobs that run at once, so nobody waits
    longer than it takes the others to use that much.

    Who has nothing waiting saves nothing up: when its next job comes, its counter is raised to the smallest of
    those who wait, or to that of who waited last (the virtual token counter of Sheng et al., Fairness in Serving
    Large Language Models, 2024).
    """

    def __init__(self, config: SchedulerConfig) -> None:
        """Takes ``tenant_weights`` from ``config``."""
        self._weights = dict(config.tenant_weights)
        self._used: dict[str, float] = {}
        self._queues: dict[str, RankedQueue] = {}  # of tenants with jobs that wait
        self._last = ""  # the tenant of the job that was the last to wait no more
        self._floor = 0.0  # no counter of somebody who waits is smaller

    def push(self, job: Job) -> None:
        """See `Policy`."""
        if job.tenant not in self._queues:
            self._raise_floor()
            self._forget_counters_below_floor()
            self._used.setdefault(job.tenant, self._floor)
            self._queues[job.tenant] = RankedQueue()
        self._queues[job.tenant].push(job, job.arrival)

    def discard(self, job: Job) -> None:
        """See `Policy`."""
        self._raise_floor()
        queue = self._queues[job.tenant]
        queue.discard(job, job.arrival)
        self._last = job.tenant
        if not len(queue):
            del self._queues[job.tenant]

    def order(self) -> Iterator[Job]:
        """By the tenants' counters as they are when the next one is asked for, then by arrival."""
        heads: list[_Head] = []
        for queue in self._queues.values():
            self._line_up(iter(queue), heads)
        while heads:
            used, _, job, others = heappop(heads)
            if used < self._used[job.tenant]:  # another job of this tenant was admitted meanwhile
                heappush(heads, (self._used[job.tenant], job.arrival, job, others))
                continue
            yield job
            self._line_up(others, heads)

    def rank(self, job: Job) -> float:
        """What its tenant had used when it was admitted."""
        return self._used.get(job.tenant, self._floor)

    def charge(self, job: Job, num_tokens: int) -> None:
        """Add to the counter of the job's tenant."""
        used = self._used.get(job.tenant, self._floor)
        self._used[job.tenant] = used + num_tokens / self._weights.get(job.tenant, 1.0)

    def _line_up(self, jobs: Iterator[Job], heads: list[_Head]) -> None:
        if job := next(jobs, None):
            heappush(heads, (self._used[job.tenant], job.arrival, job, jobs))

    def _raise_floor(self) -> None:
        waiting = self._queues or (self._last,)
        self._floor = max(self._floor, min(self._used.get(tenant, 0.0) for tenant in waiting))

    def _forget_counters_below_floor(self) -> None:
        self._used = {
            tenant: used
            for tenant, used in self._used.items()
            if used > self._floor or tenant in self._queues
        }
