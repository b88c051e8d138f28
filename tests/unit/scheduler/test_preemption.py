"""Who gives way: the lowest claim below, not in the step, and not before it gained a token since it came back."""

import pytest

from onnxgen.scheduler.job import Job
from onnxgen.scheduler.preemption import who_gives_way


class Lengths(dict):
    """Stands for the cache: the length of each sequence."""

    def length(self, seq):
        return self[seq]


def running_jobs(count):
    jobs = [Job(n, [1] * 10, max_tokens=20) for n in range(count)]
    for n, job in enumerate(jobs):
        job.claim = (0.0, n)
    return jobs, Lengths(dict.fromkeys(range(count), 9))


def test_the_lowest_claim_gives_way():
    jobs, cache = running_jobs(4)
    assert who_gives_way(jobs[1], jobs, cache, step=5) is jobs[3]


def test_nobody_gives_way_to_a_lower_claim():
    jobs, cache = running_jobs(4)
    assert who_gives_way(jobs[3], jobs, cache, step=5) is None


def test_who_is_in_the_step_stays():
    jobs, cache = running_jobs(4)
    jobs[3].last_step = 5
    assert who_gives_way(jobs[0], jobs, cache, step=5) is jobs[2]


@pytest.mark.parametrize(("length", "loser"), [(9, 2), (10, 3)])
def test_who_came_back_is_spared_until_it_gained_a_token(length, loser):
    jobs, cache = running_jobs(4)
    jobs[3].goal = 10
    cache[3] = length
    assert who_gives_way(jobs[0], jobs, cache, step=5) is jobs[loser]


def test_if_all_others_came_back_just_now_the_lowest_of_them_gives_way_all_the_same():
    jobs, cache = running_jobs(3)
    for job in jobs[1:]:
        job.goal = 10
    assert who_gives_way(jobs[0], jobs, cache, step=5) is jobs[2]
