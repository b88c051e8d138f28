"""DRY against a search as plain as its definition, and its properties one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.engine.sampling.dry import penalize_lengthening
from onnxgen.engine.sampling.edits import BANNED
from onnxgen.graph.cpu.choosing_kernels import prepare_choosing


@pytest.fixture(autouse=True, scope="module")
def compiled():
    prepare_choosing()  # no example is to wait for the compiler


def penalized(logits, history, *, breakers=(), multiplier=0.8, base=1.75, allowed_length=2):
    row = np.array(logits, np.float32)
    is_breaker = np.zeros(len(row), np.bool_)
    is_breaker[list(breakers)] = True
    edit = penalize_lengthening(
        row,
        np.array(history, np.int64),
        is_breaker,
        multiplier=multiplier,
        base=base,
        allowed_length=allowed_length,
    )
    if edit is not None:
        row[edit.tokens] = edit.values
    return row


def plain(vocab, history, *, breakers, allowed_length):
    """The longest repetition that each token would lengthen, where it is long enough."""
    longest = {}
    if not history or history[-1] in breakers:
        return longest
    for end in range(len(history) - 1):
        length = 0
        while (
            length <= end
            and history[end - length] == history[-1 - length]
            and history[end - length] not in breakers
        ):
            length += 1
        token = history[end + 1]
        if length and length >= allowed_length and token not in breakers:
            longest[token] = max(length, longest.get(token, 0))
    return longest


@given(
    history=st.lists(st.integers(0, 4), max_size=40),
    breakers=st.sets(st.integers(0, 5), max_size=2),
    allowed_length=st.integers(1, 4),
    base=st.sampled_from([1.0, 1.1, 1.75, 4.0]),
)
def test_penalties_equal_a_plain_search(history, breakers, allowed_length, base):
    longest = plain(6, history, breakers=breakers, allowed_length=allowed_length)
    expected = np.zeros(6)
    for token, length in longest.items():
        expected[token] -= 0.5 * base ** (length - allowed_length)
    found = penalized(
        np.zeros(6), history, breakers=breakers, multiplier=0.5, base=base, allowed_length=allowed_length
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_would_lengthen_a_repetition_is_penalized_by_its_length():
    #          1 2 3 was followed by 4; 3 alone by 5
    history = [0, 1, 2, 3, 4, 3, 5, 1, 2, 3]
    found = penalized(np.zeros(8), history, multiplier=1.0, base=2.0, allowed_length=1)
    np.testing.assert_array_equal(found, [0, 0, 0, 0, -4, -1, 0, 0])


def test_no_repetition_reaches_across_a_breaker_or_begins_after_one():
    history = [1, 3, 2, 4, 1, 3, 2]  # without the breaker 1 3 2 would have been followed by 4
    found = penalized(np.zeros(6), history, breakers=[3], allowed_length=1, multiplier=1)
    np.testing.assert_array_equal(found, [0, 0, 0, 0, -1, 0])
    found = penalized(np.zeros(6), [1, 2, 3, 1, 2, 3], breakers=[3], allowed_length=1)
    np.testing.assert_array_equal(found, 0)


def test_a_breaker_itself_is_never_penalized():
    found = penalized(np.zeros(4), [1, 2, 3, 1, 2], breakers=[3])
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("base", [1.75, 1.0, 1.0001, 1e300])
@pytest.mark.parametrize("multiplier", [0.8, 1e-300, 1e300])
def test_penalties_without_measure_stay_finite_and_keep_what_is_forbidden(base, multiplier):
    history = [1] * 32_768 + [2] * 32_768
    found = penalized([0.0, 0.0, 5.0, -np.inf], history, base=base, multiplier=multiplier)
    assert found[0] == found[1] == 0
    assert BANNED <= found[2] <= 5
    assert found[3] == -np.inf


@pytest.mark.parametrize("history", [[], [1], [1, 1], [1, 2]])
def test_too_short_a_history_penalizes_nothing(history):
    np.testing.assert_array_equal(penalized(np.zeros(4), history), 0)
