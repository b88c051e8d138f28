"""The queue of ranks, against a plain sort; policies by name."""

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.errors import ConfigError
from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies import make_policy, policy_names
from onnxgen.scheduler.policies.base import RankedQueue
from scheduling_loop import Loop


def jobs_of(ranks):
    jobs = []
    for arrival, _ in enumerate(ranks):
        job = Job(arrival, [1], max_tokens=2)
        job.arrival = arrival
        jobs.append(job)
    return jobs


@given(st.lists(st.integers(0, 5)), st.data())
def test_a_queue_is_a_sorted_list(ranks, data):
    queue, jobs = RankedQueue(), jobs_of(ranks)
    for job, rank in zip(jobs, ranks, strict=True):
        queue.push(job, rank)
    left = set(range(len(jobs)))
    for number in data.draw(st.permutations(sorted(left)))[: len(jobs) // 2]:
        queue.discard(jobs[number], ranks[number])
        left.remove(number)
    assert [job.arrival for job in queue] == sorted(left, key=lambda n: (ranks[n], n))
    assert len(queue) == len(left)


@given(st.lists(st.integers(0, 5)), st.integers(0, 2**20))
def test_jobs_may_leave_while_the_queue_is_walked(ranks, kept):
    queue, jobs = RankedQueue(), jobs_of(ranks)
    for job, rank in zip(jobs, ranks, strict=True):
        queue.push(job, rank)
    seen = []
    for job in queue:
        seen.append(job.arrival)
        if not kept >> job.arrival & 1:
            queue.discard(job, ranks[job.arrival])
    assert seen == sorted(range(len(jobs)), key=lambda n: (ranks[n], n))


def test_an_unknown_policy_is_refused_with_the_nearest_name():
    with pytest.raises(
        ConfigError, match=r"unknown scheduling policy 'priorty'.*fcfs, priority, fair.*mean 'priority'"
    ):
        make_policy(SchedulerConfig(policy="priorty"))


@pytest.mark.parametrize("name", ["no_such_module:Policy", "json:NoSuchPolicy", ":Policy"])
def test_a_policy_that_cannot_be_imported_is_refused(name):
    with pytest.raises(ConfigError, match="cannot be imported"):
        make_policy(SchedulerConfig(policy=name))


def test_names_are_those_that_can_be_made():
    for name in policy_names():
        assert make_policy(SchedulerConfig(policy=name))


class LastComeFirstServed:
    """A policy of somebody's own."""

    def __init__(self, config):
        self.jobs = []

    def push(self, job):
        self.jobs.append(job)

    def discard(self, job):
        self.jobs.remove(job)

    def order(self):
        return iter(self.jobs[::-1])

    def rank(self, job):
        return -job.arrival

    def charge(self, job, num_tokens):
        pass


def test_a_policy_of_ones_own_is_found_by_its_import_path(monkeypatch):
    module = types.ModuleType("my_policies")
    module.Lcfs = LastComeFirstServed
    monkeypatch.setitem(sys.modules, "my_policies", module)
    loop = Loop(SchedulerConfig(policy="my_policies:Lcfs", max_seqs=1), PoolShape(num_blocks=9, block_size=4))
    runs = [loop.add(3, 5) for _ in range(4)]
    loop.run(bound=20)
    assert [run.admitted for run in runs] == [7, 5, 3, 1]
