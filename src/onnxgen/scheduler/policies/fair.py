"""Tenants get tokens in proportion to their weights."""

from __future__ import annotations

from collections.abc import Iterator

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies.base import RankedQueue


class FairPolicy:
    """The tenant that had the least for its weight goes first; jobs of one tenant go by arrival.

    Each tenant has a counter of what it used, divided by its weight: a prompt's tokens that must be computed
    when the job is admitted, the answer's one by one. Of two tenants that always have jobs waiting the counters
    never differ by more than one admitted prompt and the answers of all jobs that run at once, so nobody waits
    longer than it takes the others to use that much.

    Who has nothing waiting saves nothing up: when its next job comes, its counter is raised to the smallest of
    those who wait (the virtual token counter of Sheng et al., Fairness in Serving Large Language Models, 2024).
    """

    def __init__(self, config: SchedulerConfig) -> None:
        """Takes ``tenant_weights`` from ``config``."""
        self._weights = dict(config.tenant_weights)
        self._used: dict[str, float] = {}
        self._queues: dict[str, RankedQueue] = {}  # of tenants with jobs that wait
        self._floor = 0.0  # the smallest counter of those who wait, or waited last

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
        if not len(queue):
            del self._queues[job.tenant]

    def order(self) -> Iterator[Job]:
        """By the tenants' counters as they are when the next one is asked for, then by arrival."""
        heads = {tenant: (queue, queue.after(None)) for tenant, queue in self._queues.items()}
        while heads:
            turns = [(self._used[tenant], entry[1], tenant) for tenant, (_, entry) in heads.items() if entry]
            tenant = min(turns)[2]
            queue, entry = heads.pop(tenant)
            assert entry is not None
            yield entry[2]
            if following := queue.after(entry):
                heads[tenant] = queue, following

    def rank(self, job: Job) -> float:
        """What its tenant had used when it was admitted."""
        return self._used.get(job.tenant, self._floor)

    def charge(self, job: Job, num_tokens: int) -> None:
        """Add to the counter of the job's tenant."""
        used = self._used.get(job.tenant, self._floor)
        self._used[job.tenant] = used + num_tokens / self._weights.get(job.tenant, 1.0)

    def _raise_floor(self) -> None:
        if self._queues:
            self._floor = max(self._floor, min(self._used[tenant] for tenant in self._queues))

    def _forget_counters_below_floor(self) -> None:
        self._used = {
            tenant: used
            for tenant, used in self._used.items()
            if used > self._floor or tenant in self._queues
        }
