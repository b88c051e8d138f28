"""Where each job is: the lists that scheduling goes through, in order at all times."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator

from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.policies.base import Policy


class Roster:
    """Every job is in exactly one place, the one that its state names.

    ::

        WAITING              the policy's queue, in the policy's order
        RUNNING              `running`, highest claim first
        SWAPPED, PREEMPTED   `away`, highest claim first

    Attributes:
        running: Who runs.
        away: Who had to give way and comes back before any newcomer.
        lanes: Lanes that jobs are in, whose turn is longest ago first, and how many jobs each has.
        num_waiting: How many wait for admission.
    """

    def __init__(self, policy: Policy) -> None:
        """No jobs yet; newcomers are ordered by ``policy``."""
        self.running: list[Job] = []
        self.away: list[Job] = []
        self.lanes: dict[Hashable, int] = {}
        self.num_waiting = 0
        self._policy = policy
        self._ids: set[int] = set()

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._ids)

    def waiting(self) -> Iterator[Job]:
        """Newcomers, who goes first first."""
        return self._policy.order()

    def enter(self, job: Job) -> None:
        """``job`` is new, and waits."""
        self._register(job)
        self.num_waiting += 1
        self._policy.push(job)

    def enter_fork(self, job: Job, state: JobState) -> None:
        """``job`` is new, and claims what it has of its parent."""
        self._register(job)
        self._place(job, state)

    def move(self, job: Job, state: JobState) -> None:
        """``job`` starts to run, or gives way."""
        self._take_out(job)
        self._place(job, state)

    def leave(self, job: Job) -> None:
        """``job`` is done with."""
        self._take_out(job)
        self._ids.remove(job.id)
        self._leave_lane(job)

    def change_lane(self, job: Job, lane: Hashable) -> None:
        """``job`` shares steps with others from now on."""
        self._leave_lane(job)
        job.lane = lane
        self.lanes[lane] = self.lanes.get(lane, 0) + 1

    def give_turn_away(self, lane: Hashable) -> None:
        """``lane`` had a step; all others go first now."""
        if len(self.lanes) > 1:
            self.lanes[lane] = self.lanes.pop(lane)

    def change_policy(self, policy: Policy) -> None:
        """All who wait and all claims are ordered by ``policy`` from now on."""
        waiting = sorted(self.waiting(), key=lambda job: job.arrival)
        self._policy = policy
        for job in waiting:
            policy.push(job)
        for jobs in (self.running, self.away):
            for job in jobs:
                job.claim = policy.rank(job), job.arrival
            jobs.sort(key=_claim)

    def check_integrity(self) -> None:
        """Every job is where its state says, once, and every list is in order."""
        waiting = list(self.waiting())
        placed = [*waiting, *self.running, *self.away]
        assert len(waiting) == self.num_waiting, f"{len(waiting)} wait, {self.num_waiting} are counted"
        assert sorted(job.id for job in placed) == sorted(self._ids), "a job is lost, or in two places"
        assert all(job.state is JobState.WAITING for job in waiting)
        assert all(job.state is JobState.RUNNING for job in self.running)
        assert all(job.state in (JobState.SWAPPED, JobState.PREEMPTED) for job in self.away)
        for jobs in (self.running, self.away):
            assert jobs == sorted(jobs, key=_claim), "not in the order of claims"
        lanes = [job.lane for job in placed]
        assert self.lanes == {lane: lanes.count(lane) for lane in set(lanes)}, "a lane is miscounted"

    def _register(self, job: Job) -> None:
        assert job.id not in self._ids, f"job {job.id} is there already"
        self._ids.add(job.id)
        self.lanes[job.lane] = self.lanes.get(job.lane, 0) + 1

    def _leave_lane(self, job: Job) -> None:
        self.lanes[job.lane] -= 1
        if not self.lanes[job.lane]:
            del self.lanes[job.lane]

    def _take_out(self, job: Job) -> None:
        if job.state is JobState.WAITING:
            self._policy.discard(job)
            self.num_waiting -= 1
        else:
            self._list(job.state).remove(job)

    def _place(self, job: Job, state: JobState) -> None:
        job.state = state
        insort(self._list(state), job, key=_claim)

    def _list(self, state: JobState) -> list[Job]:
        return self.running if state is JobState.RUNNING else self.away


def _claim(job: Job) -> tuple[float, int]:
    return job.claim
