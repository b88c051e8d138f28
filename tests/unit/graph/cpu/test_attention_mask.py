"""What queries may see."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.graph.cpu.attention_mask import Mask, mask_of_input, window_of

BOUND = st.none() | st.integers(0, 8)


@given(
    seq=st.integers(0, 6),
    total=st.integers(0, 7),
    offsets=st.lists(st.integers(-4, 6), min_size=1, max_size=3),
    causal=st.booleans(),
    left=BOUND,
    right=BOUND,
)
def test_a_window_is_what_its_inequalities_say(seq, total, offsets, causal, left, right):
    seen = window_of(seq, total, np.array(offsets), causal=causal, left=left, right=right)
    if seen is None:
        assert not causal and left is None and right is None
        return
    assert seen.shape == (len(offsets), 1, seq, total)
    for sample, offset in enumerate(offsets):
        for query in range(seq):
            position = offset + query
            for key in range(total):
                wanted = (
                    (not causal or key <= position)
                    and (left is None or key >= position - left)
                    and (right is None or key <= position + right)
                )
                assert seen[sample, 0, query, key] == wanted


def test_numbers_hide_where_they_are_minus_infinity():
    mask = mask_of_input(np.array([0.5, -np.inf], np.float32), 3)
    assert mask.allowed is not None and mask.allowed.tolist() == [True, False, False]
    assert mask.bias is not None and mask.bias.tolist() == [0.5, -np.inf, 0]


def test_a_mask_that_hides_nothing_says_so():
    assert mask_of_input(np.ones((2, 3), bool), 3) == Mask()


def test_restrictions_add_up():
    first, second = np.array([True, True, False]), np.array([True, False, True])
    both = Mask(first).restricted(second).restricted(None)
    assert both.allowed is not None and both.allowed.tolist() == [True, False, False]
