"""Tokens chosen from rows of logits, against the definition in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drawn_tokens import candidates, expected_tokens, number_at
from kernel_runs import fresh_rng
from logit_rows import SHAPES, good_and_broken, masked, normal
from onnxgen.graph.cpu.draws import Draw, draw_tokens

WIDTHS = [1, 2, 15, 16, 17, 100, 511, 512, 513, 3000, 49152]


def any_draw(rng):
    return Draw(
        temperature=float(rng.choice([0, 1e-300, 0.01, 0.3, 0.8, 1, 2, 1e6, 1e300])),
        top_k=int(rng.choice([0, 0, 0, 1, 2, 5, 50, 300, 2500, 2**40])),
        top_p=float(rng.choice([0, 1e-9, 0.1, 0.5, 0.9, 0.95, 0.999, 1, 1])),
        seed=int(rng.integers(2**64, dtype=np.uint64)),
        stream=int(rng.integers(2**64, dtype=np.uint64)),
        position=int(rng.integers(2**40)),
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_tokens_are_those_of_the_definition(width, shape):
    rng = fresh_rng()
    for scale in (0.01, 0.5, 2, 8):
        rows = [shape(rng, width, scale) for _ in range(4)]
        draws = [any_draw(rng) for _ in rows]
        for row, draw, token in zip(rows, draws, draw_tokens(rows, draws), strict=True):
            assert token in expected_tokens(row, draw), draw


@pytest.mark.parametrize("draw", [Draw(1.0), Draw(1.0, top_p=0.9), Draw(0.7, top_k=40, top_p=0.9)])
def test_the_random_number_is_that_of_numpys_philox(draw):
    rng = fresh_rng()
    row = normal(rng, 1000, 1)
    ids, shares, _ = candidates(row, temperature=draw.temperature, top_k=draw.top_k, top_p=draw.top_p)
    reached = np.cumsum(shares)
    for seed in (0, 5, 2**32 + 5, 2**64 - 1):
        for stream in (0, 1, 2**64 - 1):
            for position in (0, 1, 2**31, 2**33):
                number = number_at(seed, stream, position)
                at = int(np.searchsorted(reached, number, side="right"))
                if np.abs(reached - number).min() > 1e-6:
                    placed = replace(draw, seed=seed, stream=stream, position=position)
                    assert draw_tokens([row], [placed]) == [ids[at]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.99])
def test_a_nucleus_has_exactly_its_tokens(shape, top_p):
    """Many draws from a small vocabulary meet all of them, and no other."""
    rng = fresh_rng()
    row = shape(rng, 40, 1.0)
    ids, shares, margin = candidates(row, temperature=1.0, top_k=0, top_p=top_p)
    if margin < 1e-6:
        pytest.skip("rounding decides what belongs to it")
    draws = [Draw(1.0, top_p=top_p, position=i) for i in range(4000)]
    met = set(draw_tokens([row] * len(draws), draws))
    assert met <= set(ids.tolist())
    assert met >= set(ids[shares > 0.005].tolist())


@pytest.mark.parametrize(
    "draw", [Draw(1.3), Draw(1.3, top_k=7), Draw(1.3, top_p=0.8), Draw(1.3, top_k=9, top_p=0.9)]
)
def test_shares_of_drawn_tokens_are_those_of_the_softmax(draw):
    row = np.random.default_rng(5).normal(size=30).astype(np.float32)
    ids, shares, _ = candidates(row, temperature=draw.temperature, top_k=draw.top_k, top_p=draw.top_p)
    count = 20_000
    tokens = draw_tokens([row] * count, [replace(draw, seed=11, position=i) for i in range(count)])
    counts = np.bincount(tokens, minlength=30)[ids]
    assert counts.sum() == count
    # chi-square, with at most 29 degrees of freedom: beyond 66 once in 10,000 times; inputs are fixed
    assert ((counts - count * shares) ** 2 / (count * shares)).sum() < 66


def test_a_row_depends_on_itself_alone():
    rng = fresh_rng()
    rows = [SHAPES[i % 4](rng, 2000, 2.0) for i in range(40)]
    rows[7][3] = np.nan
    draws = [any_draw(rng) for _ in rows]
    alone = [draw_tokens([row], [draw])[0] for row, draw in zip(rows, draws, strict=True)]
    for size in (2, 3, 16, 40):
        order = rng.permutation(40)[:size].tolist()
        assert draw_tokens([rows[i] for i in order], [draws[i] for i in order]) == [alone[i] for i in order]


def test_where_a_row_lies_does_not_matter():
    rng = fresh_rng()
    row, draw = normal(rng, 777, 2.0), Draw(0.9, top_p=0.95, seed=3)
    memory = np.empty(800, np.float32)
    tokens = set()
    for offset in range(16):
        memory[offset : offset + 777] = row
        tokens.update(draw_tokens([memory[offset : offset + 777]], [draw]))
    assert len(tokens) == 1


@pytest.mark.parametrize("draw", [Draw(), Draw(1.0), Draw(1.0, top_p=0.9), Draw(1.0, top_k=3)])
@pytest.mark.parametrize("width", [1, 17, 1000])
@pytest.mark.parametrize("broken", [np.nan, np.inf, None])
def test_a_broken_row_has_no_token_and_its_neighbours_have_theirs(draw, width, broken):
    good, bad = good_and_broken(fresh_rng(), width, broken)
    tokens = draw_tokens([good, bad, good], [draw] * 3)
    assert tokens[1] == -1
    assert tokens[0] == tokens[2] >= 0


@pytest.mark.parametrize("width", WIDTHS)
def test_of_equal_logits_the_best_is_the_first_and_all_can_be_drawn(width):
    flat = np.zeros(width, np.float32)
    flat[::2] = -0.0
    assert draw_tokens([flat], [Draw()]) == [0]
    for draw in (Draw(1.0), Draw(1.0, top_p=0.999999), Draw(1.0, top_k=max(1, width - 1))):
        number = number_at(draw.seed, draw.stream, draw.position)
        assert draw_tokens([flat], [draw])[0] == pytest.approx(number * width, abs=2)


def test_forbidden_tokens_are_never_drawn():
    rng = fresh_rng()
    row = masked(rng, 60, 1.0)
    for draw in (Draw(1e300), Draw(5.0, top_p=0.9999999), Draw(5.0, top_k=59)):
        tokens = draw_tokens([row] * 2000, [replace(draw, position=i) for i in range(2000)])
        assert np.isfinite(row[tokens]).all()


def test_no_rows_have_no_tokens():
    assert draw_tokens([], []) == []
