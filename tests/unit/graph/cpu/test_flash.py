"""Compiled attention against the formula in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.flash import Paging, Scoring, can_attend, flash_attend


def attended(query, keys, values, scoring, first, *, bias=None, mask=None):
    """Of one sequence: ``[heads, seq, dim]`` and ``[kv_heads, keys, dim]``."""
    heads, seq, _ = query.shape
    group, total = heads // len(keys), keys.shape[1]
    keys, values = (np.repeat(x.astype(np.float64), group, axis=0) for x in (keys, values))
    scores = query.astype(np.float64) @ keys.swapaxes(1, 2) * scoring.scale
    if scoring.softcap:
        scores = scoring.softcap * np.tanh(scores / scoring.softcap)
    scores = scores if bias is None else scores + bias[..., :total]
    positions = first + np.arange(seq)[:, None]
    ahead = np.arange(total) - positions
    seen = np.ones((seq, total), bool)
    seen &= ahead >= -(10**9 if scoring.left is None else scoring.left)
    seen &= ahead <= (10**9 if scoring.right is None else scoring.right)
    seen = np.broadcast_to(seen, scores.shape)
    seen = seen if mask is None else seen & mask[..., :total]
    scores = np.where(seen, scores, -np.inf)
    sink = np.full((heads, 1, 1), -np.inf) if scoring.sink is None else scoring.sink[:, None, None]
    peak = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sink)
    peak = np.where(np.isneginf(peak), 0, peak)
    weights = np.exp(scores - peak)
    sums = weights.sum(-1, keepdims=True) + np.exp(sink - peak)
    return weights @ values / np.where(sums == 0, 1, sums)


def compare(query, keys, values, scoring, num_keys, firsts, *, bias=None, mask=None, tolerance=2e-6):
    """Query ``[batch, seq, heads, dim]``; keys and values ``[batch, kv_heads, rows, dim]``."""
    output = np.full((*query.shape[:3], values.shape[3]), 9, np.float32)
    flash_attend(
        query, keys, values, output, scoring, num_keys=num_keys, first_positions=firsts, bias=bias, mask=mask
    )
    for row, (count, first) in enumerate(zip(num_keys, firsts, strict=True)):
        extra = {
            name: None if x is None else np.broadcast_to(x, (len(query), *x.shape[1:]))[row]
            for name, x in (("bias", bias), ("mask", mask))
        }
        want = attended(
            query[row].swapaxes(0, 1), keys[row, :, :count], values[row, :, :count], scoring, first, **extra
        )
        np.testing.assert_allclose(output[row].swapaxes(0, 1), want, rtol=2e-5, atol=tolerance)


def tensors(rng, batch, seq, heads, kv_heads, rows, dim, value_dim=None):
    shapes = (batch, seq, heads, dim), (batch, kv_heads, rows, dim), (batch, kv_heads, rows, value_dim or dim)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("dim", [1, 3, 16, 20, 64, 80, 96, 100, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (3, 1), (6, 2), (7, 1), (8, 8), (9, 1)])
def test_head_dims_and_groups(dim, heads, kv_heads):
    rng = fresh_rng()
    for seq in (1, int(rng.integers(2, 12)), int(rng.integers(12, 80))):
        rows = seq + int(rng.integers(0, 150))
        value_dim = dim if rng.random() < 0.7 else int(rng.integers(1, 140))
        given = tensors(rng, 2, seq, heads, kv_heads, rows, dim, value_dim)
        counts = [rows, int(rng.integers(seq, rows + 1))]
        compare(*given, Scoring(dim**-0.5, right=0), counts, [count - seq for count in counts])


@pytest.mark.parametrize(
    "scoring",
    [
        Scoring(0.3),
        Scoring(0.3, softcap=2.0, right=0),
        Scoring(0.3, left=5, right=0),
        Scoring(0.3, left=70, right=3),
        Scoring(0.3, left=-1, right=0),
        Scoring(0.3, sink=np.linspace(-2, 4, 4, dtype=np.float32), right=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("seq", [1, 7, 150])
def test_bounds_caps_and_sinks(scoring, seq):
    rng = fresh_rng()
    rows = 200
    given = tensors(rng, 1, seq, 4, 2, rows, 32)
    for first in (rows - seq, -3, int(rng.integers(0, rows))):
        compare(*given, scoring, [rows], [first])


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 4, 1), (1, 4, 40), (2, 1, 40)])
def test_biases_and_masks(shape):
    rng = fresh_rng()
    given = tensors(rng, 2, 40, 4, 2, 77, 24)
    bias = rng.standard_normal((*shape, 80)).astype(np.float32)
    bias[..., ::7] = -np.inf
    mask = rng.random((*shape, 80)) < 0.5
    mask[0, 0, 0] = False  # a row that sees nothing
    for scoring in (Scoring(0.2), Scoring(0.2, right=0, softcap=3.0)):
        compare(*given, scoring, [77, 60], [37, 20], bias=bias)
        compare(*given, scoring, [77, 60], [37, 20], mask=mask)
        compare(*given, scoring, [77, 60], [37, 20], bias=bias, mask=mask)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint8])
@pytest.mark.parametrize("dim", [2, 30, 64, 82])
def test_caches_of_narrow_types(kind, dim):
    rng = fresh_rng()
    for seq in (1, 30):
        query, keys, values = tensors(rng, 1, seq, 4, 2, 100, dim)
        key_scale, value_scale = (rng.random((2, dim)).astype(np.float32) * 0.05 for _ in range(2))
        stored, scoring = [keys.astype(kind), values.astype(kind)], Scoring(0.1, right=0)
        wide = [x.astype(np.float32) for x in stored]
        if kind in (np.int8, np.uint8):
            scoring = Scoring(0.1, right=0, key_scale=key_scale, value_scale=value_scale)
            whole = [
                rng.integers(-8, 8, x.shape) if kind == np.uint8 else rng.integers(-128, 128, x.shape)
                for x in wide
            ]
            wide = [x * s[None, :, None] for x, s in zip(whole, (key_scale, value_scale), strict=True)]
            stored = [x.astype(np.int8) for x in whole]
            if kind == np.uint8:
                stored = [((x[..., ::2] + 8) | (x[..., 1::2] + 8) << 4).astype(np.uint8) for x in stored]
        output = np.empty((1, seq, 4, dim), np.float32)
        flash_attend(query, *stored, output, scoring, num_keys=[100], first_positions=[100 - seq])
        plain = Scoring(0.1, right=0)
        want = attended(query[0].swapaxes(0, 1), wide[0][0], wide[1][0], plain, 100 - seq)
        np.testing.assert_allclose(output[0].swapaxes(0, 1), want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("block_size", [1, 5, 16, 64, 128])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_blocks_in_any_order_some_of_them_missing(block_size, kind):
    rng = fresh_rng()
    counts, news, (heads, kv_heads, dim) = [150, 9, 70], [1, 9, 40], (4, 2, 32)
    pages = [-(-count // block_size) for count in counts]
    ids = rng.permutation(sum(pages) + 3).astype(np.int32)
    table = np.full((3, max(pages)), -1, np.int32)
    cache = [rng.standard_normal((len(ids), block_size, kv_heads, dim)).astype(kind) for _ in range(2)]
    for row, count in enumerate(pages):
        table[row, :count] = ids[sum(pages[:row]) :][:count]
    if pages[0] > 2:
        table[0, 1] = -1
    starts = [0, 1, 10]
    query = rng.standard_normal((1, 50, heads, dim)).astype(np.float32)
    output = np.empty((1, 50, heads, dim), np.float32)
    flat = [x.reshape(1, -1, kv_heads, dim).swapaxes(1, 2) for x in cache]
    scoring = Scoring(0.2, left=100, right=0)
    flash_attend(
        query,
        *flat,
        output,
        scoring,
        num_keys=counts,
        first_positions=[count - new for count, new in zip(counts, news, strict=True)],
        num_queries=news,
        first_queries=starts,
        paging=Paging(table, block_size),
    )
    for row, (count, new, start) in enumerate(zip(counts, news, starts, strict=True)):
        places = table[row].repeat(block_size)[:count] * block_size + np.arange(count) % block_size
        keys, values = (x[0][:, places] for x in flat)
        mask = np.broadcast_to(places >= 0, (heads, new, count))
        q = query[0, start : start + new].swapaxes(0, 1)
        want = attended(q, keys, values, scoring, count - new, mask=mask)
        np.testing.assert_allclose(output[0, start : start + new].swapaxes(0, 1), want, rtol=2e-5, atol=2e-6)


def test_long_work_is_split_over_keys_and_put_together():
    rng = fresh_rng()
    given = tensors(rng, 1, 1, 8, 1, 5000, 128)
    compare(*given, Scoring(0.1, right=0, sink=np.full(8, 3, np.float32)), [5000], [4999])
    given = tensors(rng, 1, 40, 2, 2, 3001, 64)
    compare(*given, Scoring(0.1, left=2900, right=0), [3001], [2961])


def test_nothing_to_attend_to_gives_zeros():
    rng = fresh_rng()
    query, keys, values = tensors(rng, 2, 3, 2, 1, 0, 8)
    compare(query, keys, values, Scoring(1.0, right=0), [0, 0], [-3, -3])
    flash_attend(
        query[:, :0], keys, values, query[:, :0], Scoring(1.0), num_keys=[0, 0], first_positions=[0, 0]
    )


def test_a_score_that_is_no_number_shows():
    rng = fresh_rng()
    query, keys, values = tensors(rng, 1, 1, 1, 1, 40, 16)
    keys[0, 0, 20, 3] = np.nan
    output = np.empty((1, 1, 1, 16), np.float32)
    flash_attend(query, keys, values, output, Scoring(1.0), num_keys=[40], first_positions=[0])
    assert np.isnan(output).all()


def test_what_can_be_read():
    x = np.zeros((1, 2, 3, 8), np.float32)
    assert can_attend(x, x.astype(np.float16), x[:, :, :, ::-1][..., ::-1])
    assert not can_attend(x.astype(np.float64))
    assert not can_attend(x[..., ::2])
