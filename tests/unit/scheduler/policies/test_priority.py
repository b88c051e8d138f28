"""Urgent jobs go first; waiting makes up for priority, as much as the configuration says."""

from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.config import SchedulerConfig
from scheduling_loop import Loop


def loop_of(*, aging_steps, num_blocks=100, **config) -> Loop:
    config = SchedulerConfig(policy="priority", aging_steps=aging_steps, **{"max_seqs": 1, **config})
    return Loop(config, PoolShape(num_blocks=num_blocks, block_size=4))


def test_smaller_priorities_go_first_and_equal_ones_by_arrival():
    loop = loop_of(aging_steps=1000)
    runs = [loop.add(3, 5, priority=priority) for priority in (2, 0, 1, 0, -1, 2)]
    loop.run(bound=60)
    assert sorted(range(6), key=lambda n: runs[n].admitted) == [4, 1, 3, 2, 0, 5]


def run_with_stream(loop, *, steps) -> int | None:
    """A job of priority 3, and an urgent one in every second step, each of which takes two steps."""
    patient = loop.add(3, 5, priority=3)
    for _ in range(steps // 2):
        loop.add(3, 5, priority=0)
        loop.step()
        loop.step()
    return patient.admitted


def test_aging_bounds_the_wait_behind_a_stream_of_urgent_jobs():
    admitted = run_with_stream(loop_of(aging_steps=10), steps=200)
    assert 3 * 10 <= admitted <= 3 * 10 + 2 * 2, "three priorities, and the job that runs then"


def test_without_aging_a_stream_of_urgent_jobs_starves_the_others():
    assert run_with_stream(loop_of(aging_steps=None), steps=200) is None


def test_the_least_urgent_gives_way_even_if_it_came_first():
    loop = loop_of(aging_steps=1000, num_blocks=16, max_seqs=4, preemption="recompute")
    patient, urgent = loop.add(8, 40, priority=1), loop.add(8, 40, priority=0)
    loop.run(bound=200)
    assert patient.num_preempted > 0
    assert urgent.num_preempted == 0
