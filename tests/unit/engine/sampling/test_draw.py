import numpy as np
import pytest

from onnxgen.engine.sampling.draw import fresh_seed, pick, uniform


def test_numbers_depend_on_seed_stream_and_position_only():
    numbers = {
        (s, r, p): uniform(s, r, p) for s in (0, 5, 2**32 + 5, 2**64 - 1) for r in (0, 1) for p in (0, 1, 9)
    }
    assert len(set(numbers.values())) == len(numbers)
    assert all(uniform(*key) == value for key, value in numbers.items())
    assert all(0 <= value < 1 for value in numbers.values())


def test_numbers_are_spread_evenly_over_positions_and_seeds():
    along = [uniform(1, 0, p) for p in range(2000)]
    across = [uniform(s, 0, 7) for s in range(2000)]
    for numbers in (along, across):
        counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
        # chi-square with 9 degrees of freedom; fixed inputs, so this can't flicker
        assert ((counts - 200) ** 2 / 200).sum() < 30


def test_fresh_seeds_differ():
    assert len({fresh_seed() for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("number", "expected"), [(0.0, 10), (0.2499, 10), (0.25, 30), (0.999999, 30), (1.0, 30)]
)
def test_picking_follows_the_running_sum_and_never_takes_a_zero_weight(number, expected):
    ids, weights = np.array([5, 10, 20, 30, 40]), np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    assert pick(ids, weights, number) == expected


def test_a_single_candidate_is_always_picked():
    assert pick(np.array([3]), np.array([0.1]), 0.999) == 3
