from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.server.protection.rate_limit import Buckets


class Clock:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


def test_a_minutes_worth_at_once_and_then_evenly():
    clock = Clock()
    buckets = Buckets(6, now=clock)
    assert [buckets.take("a").wait_s for _ in range(6)] == [0.0] * 6
    assert buckets.take("a").wait_s == 10
    clock.s = 4
    assert round(buckets.take("a").wait_s, 6) == 6
    clock.s = 10.001
    taken = buckets.take("a")
    assert (taken.wait_s, taken.left, round(taken.full_in_s)) == (0, 0, 60)


def test_callers_do_not_share():
    buckets = Buckets(1, now=Clock())
    assert buckets.take("a").wait_s == 0
    assert buckets.take("a").wait_s > 0
    assert buckets.take("b").wait_s == 0


def test_less_than_one_a_minute_still_lets_one_in():
    clock = Clock()
    buckets = Buckets(0.5, now=clock)
    assert buckets.take("a").wait_s == 0
    assert buckets.take("a").wait_s == 120


def test_buckets_are_bounded():
    buckets = Buckets(1, now=Clock(), max_callers=3)
    for caller in "abcd":
        buckets.take(caller)
    assert buckets.take("d").wait_s > 0
    assert buckets.take("a").wait_s == 0


@given(st.floats(0.1, 1000), st.integers(0, 2**32))
def test_never_more_than_the_rate_in_any_minute(per_minute, seed):
    clock, source = Clock(), random.Random(seed)
    buckets, admitted = Buckets(per_minute, now=clock), []
    for _ in range(200):
        clock.s += source.expovariate(per_minute / 30)
        if buckets.take("a").wait_s == 0:
            admitted.append(clock.s)
    size = max(1.0, per_minute)
    for index, begin in enumerate(admitted):
        for count, end in enumerate(admitted[index:], 1):
            assert count <= size + (end - begin) * per_minute / 60 + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 50))
def test_who_waits_as_told_is_let_in(per_minute, asked):
    clock = Clock()
    buckets = Buckets(per_minute, now=clock)
    for _ in range(asked):
        wait_s = buckets.take("a").wait_s
        if wait_s:
            clock.s += wait_s + 1e-9 * (1 + clock.s)
            assert buckets.take("a").wait_s == 0
