"""Rows with a bit mask are what rows with minus infinity in its places are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.graph.cpu.draws import Draw, RepeatedDraws, draw_tokens, draw_with_surprises
from onnxgen.graph.cpu.masked_rows import apply_mask, mask_words
from token_masks import mask_of

WIDTHS = st.one_of(st.integers(1, 70), st.sampled_from([511, 512, 513, 1000, 1024, 5000, 49_153]))
DRAWS = (
    {},
    {"temperature": 0.8},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 1.3, "top_p": 0.9},
    {"temperature": 0.8, "top_k": 50, "top_p": 0.7},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 1.0, "typical_p": 0.8, "top_n_sigma": 1.0, "top_a": 0.1},
    {"temperature": 1.0, "xtc_probability": 0.7, "xtc_threshold": 0.05},
    {"temperature": 0.7, "mirostat": 1},
    {"temperature": 0.7, "mirostat": 2, "mirostat_mu": 3.0},
)


def masked_rows(width, count, seed):
    """Rows, which of their tokens may be chosen, and the same rows with minus infinity elsewhere."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(count, width)) * rng.choice([0.5, 3, 10])).astype(np.float32)
    allowed = rng.random((count, width)) < rng.choice([0.001, 0.05, 0.5, 0.97, 1.0], size=(count, 1))
    allowed[np.arange(count), rng.integers(width, size=count)] = True
    return list(rows), allowed, list(np.where(allowed, rows, np.float32(-np.inf)))


@given(WIDTHS, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_masked_rows_draw_what_rows_of_minus_infinities_draw(width, seed):
    rows, allowed, filled = masked_rows(width, len(DRAWS), seed)
    draws = [Draw(**asked, seed=seed, stream=i, position=i) for i, asked in enumerate(DRAWS)]
    masks = [mask_of(row) for row in allowed]
    before = np.stack(rows)
    assert draw_with_surprises(rows, draws, masks) == draw_with_surprises(filled, draws)
    assert np.array_equal(rows, before)


@given(WIDTHS, st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_masks_of_some_rows_leave_the_others_alone(width, seed):
    rows, allowed, filled = masked_rows(width, 4, seed)
    draws = [Draw(temperature=1.0, seed=seed, position=i) for i in range(4)]
    masks = [mask_of(allowed[0]), None, mask_of(allowed[2]), None]
    mixed = [filled[0], rows[1], filled[2], rows[3]]
    expected = draw_tokens(mixed, draws)
    assert draw_tokens(rows, draws, masks) == expected
    repeated = RepeatedDraws(draws, width)
    logits = np.stack(rows)
    assert repeated.tokens(logits, range(4), masks) == expected
    assert repeated.tokens(logits, range(4)) == draw_tokens(rows, draws)


@given(WIDTHS, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_mask_is_written_over_a_row(width, seed):
    (row,), (allowed,), (filled,) = masked_rows(width, 1, seed)
    mask = np.concatenate([mask_of(allowed), np.full(2, 2**32 - 1, np.uint32)])  # longer than the row
    apply_mask(row, mask)
    assert np.array_equal(row, filled)


@pytest.mark.parametrize("asked", DRAWS, ids=str)
def test_where_nothing_may_be_chosen_there_is_no_token(asked):
    rows = list(np.zeros((2, 777), np.float32))
    masks = [np.zeros(mask_words(777), np.uint32), mask_of(np.arange(777) == 700)]
    assert draw_tokens(rows, [Draw(**asked)] * 2, masks) == [-1, 700]


def test_what_a_mask_hides_may_be_broken():
    row = np.full(100, np.nan, np.float32)
    row[41] = -3
    assert draw_tokens([row], [Draw(temperature=1.0)], [mask_of(np.arange(100) == 41)]) == [41]
