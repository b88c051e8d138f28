import math

import pytest

from onnxgen.engine.beams.hypotheses import Hypotheses, penalized


def hypotheses(keep=2, *, length_penalty=1.0, early_stopping=False, max_length=10):
    return Hypotheses(
        keep=keep, length_penalty=length_penalty, early_stopping=early_stopping, max_length=max_length
    )


def test_the_best_are_kept_best_first_and_equal_ones_in_their_order():
    held = hypotheses(3, length_penalty=0)
    for tokens, total in (((1,), -3.0), ((2,), -1.0), ((3,), -3.0), ((4,), -2.0), ((5,), -3.0)):
        held.add(tokens, total, length=1, eos_id=0)
    assert [h.token_ids for h in held] == [(2,), (4,), (1,)]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, -1.0, 0.5])
def test_scores_are_sums_over_penalized_lengths(power):
    held = hypotheses(length_penalty=power)
    held.add((1, 2), -6.0, length=3, eos_id=None)
    (only,) = held
    assert only.score == pytest.approx(-6.0 / 3**power)
    assert only.sum_logprobs == -6.0


@pytest.mark.parametrize("power", [1e300, -1e300, 1e4, -1e4])
def test_no_power_overflows(power):
    assert math.isfinite(penalized(-5.0, 100, power))
    assert penalized(-5.0, 0, power) == -5.0


def test_an_incomplete_set_is_never_final():
    for early in (True, False, "never"):
        held = hypotheses(2, early_stopping=early)
        held.add((1,), -1.0, length=1, eos_id=0)
        assert not held.are_final(-100.0, length=1)


def test_a_complete_set_is_final_at_once_with_early_stopping():
    held = hypotheses(1, early_stopping=True)
    held.add((1,), -5.0, length=1, eos_id=0)
    assert held.are_final(-0.1, length=1)


def test_without_early_stopping_the_present_length_decides():
    held = hypotheses(1)
    held.add((1,), -4.0, length=2, eos_id=0)  # -2
    assert not held.are_final(-3.9, length=2)
    assert held.are_final(-4.1, length=2)


def test_never_looks_at_the_longest_length_where_that_is_the_best():
    held = hypotheses(1, early_stopping="never", max_length=10)
    held.add((1,), -4.0, length=2, eos_id=0)  # -2
    assert not held.are_final(-19.9, length=2)  # -1.99 at ten tokens
    assert held.are_final(-20.1, length=2)
    held = hypotheses(1, early_stopping="never", length_penalty=-1.0, max_length=10)
    held.add((1,), -4.0, length=2, eos_id=0)  # -8
    assert held.are_final(-4.1, length=2)
