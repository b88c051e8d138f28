from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.head_rows import Angles, Move, move_heads
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.cpu.rotary import rotated

FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)


def moved(source, rows, places, *, weight=None, epsilon=0.0, angles=None):
    """What lies in ``[batch, rows, heads, dim]`` afterwards, in float64; NaN where nothing was written."""
    x = source.astype(np.float64)
    if weight is not None:
        x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon) * weight
    if angles is not None:
        cos, sin = (
            table.astype(np.float64)[angles.positions][:, :, None] for table in (angles.cos, angles.sin)
        )
        x[..., angles.offset :] = rotated(x[..., angles.offset :], cos, sin, interleaved=angles.interleaved)
    y = np.full((len(x), rows, *x.shape[2:]), np.nan)
    for batch, row in enumerate(places):
        for token, place in enumerate(row):
            if place >= 0:
                y[batch, place] = x[batch, token]
    return y


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("dim", [2, 5, 16, 40, 64, 200])
@pytest.mark.parametrize("interleaved", [False, True])
def test_norm_rotation_and_placement(kind, dim, interleaved):
    rng = fresh_rng()
    batch, seq, heads, rows = 2, int(rng.integers(1, 40)), int(rng.integers(1, 4)), 50
    source = rng.standard_normal((batch, heads, seq, dim)).astype(kind).swapaxes(1, 2)
    half = int(rng.integers(0, dim // 2)) + 1
    offset = int(rng.integers(0, dim - 2 * half + 1))
    tables = (rng.standard_normal((30, half)).astype(kind) for _ in range(2))
    angles = Angles(*tables, rng.integers(0, 30, (batch, seq)), interleaved, offset)
    places = np.stack([rng.permutation(rows)[:seq] for _ in range(batch)])
    places[0, 0] = -1
    weight = rng.standard_normal(dim).astype(np.float32)
    for options in (
        {},
        {"weight": weight, "epsilon": 1e-5},
        {"angles": angles},
        {"weight": weight, "angles": angles},
    ):
        target = np.full((batch, rows, heads, dim), np.nan, np.float32)
        move_heads(Move(source, target, places, **options))
        want = moved(source, rows, places, **options)
        np.testing.assert_allclose(target, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_targets_are_rounded_to_nearest(kind):
    source = fresh_rng().standard_normal((1, 7, 2, 33)).astype(np.float32)
    source[0, 0, 0, :5] = [np.inf, -np.inf, np.nan, 0, 1e-41]
    target = np.empty(source.shape, kind)
    move_heads(Move(source, target))
    np.testing.assert_array_equal(target.astype(np.float32), source.astype(kind).astype(np.float32))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dim", [1, 15, 64])
def test_whole_numbers_are_those_of_the_codec(bits, dim):
    rng = fresh_rng()
    source = rng.standard_normal((2, 9, 3, dim)).astype(np.float32)
    scale = (rng.random((3, dim)) * (0.02 if bits == 8 else 0.2) + 0.001).astype(np.float32)
    codec = CacheCodec(np.dtype(np.int8), bits, scale[:, None])
    want = codec.encode(source.swapaxes(1, 2)).swapaxes(1, 2)
    target = np.empty(want.shape, want.dtype)
    move_heads(Move(source, target, scale=scale))
    np.testing.assert_array_equal(target, want)


def test_several_moves_and_one_in_place():
    rng = fresh_rng()
    x, y = (rng.standard_normal((1, 300, heads, 64)).astype(np.float32) for heads in (4, 2))
    angles = Angles(
        *(rng.standard_normal((300, 32)).astype(np.float32) for _ in range(2)), np.arange(300)[None]
    )
    want, copy = moved(x, 300, [range(300)], angles=angles), np.empty_like(y)
    move_heads(Move(x, x, angles=angles), Move(y, copy))
    np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(copy, y)


def test_nothing_to_move():
    empty = np.empty((1, 0, 2, 8), np.float32)
    move_heads(Move(empty, empty), Move(empty, empty))
