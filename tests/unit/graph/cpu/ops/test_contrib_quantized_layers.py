"""Quantized layers of com.microsoft against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

MICROSOFT = {"domain": "com.microsoft"}


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


def _scalar(value, dtype=np.float32):
    return np.array(value, dtype)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_gemm(transposed, quantized, columns):
    rng = fresh_rng()
    a, b = _bytes(rng, np.uint8, 5, 20), _bytes(rng, np.int8, 20, 4)
    b_scale = np.asarray(rng.random(4 if columns else ()) * 0.1, np.float32)
    args = [a.T.copy() if transposed[0] else a, _scalar(0.02), _scalar(120, np.uint8)]
    args += [b.T.copy() if transposed[1] else b, b_scale, _bytes(rng, np.int8, *b_scale.shape)]
    args += [rng.integers(-900, 900, 4).astype(np.int32)]
    args += [_scalar(0.5), _scalar(7, np.uint8)] if quantized else []
    options = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.7, **MICROSOFT}
    got, want = run_cpu("QGemm", *args, **options), run_ort("QGemm", *args, **options)
    assert_same(got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1 if quantized else 1e-4)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(columns, unidirectional):
    rng = fresh_rng()
    batch, seq, features, heads, head_dim = 2, 4, 6, 3, 2
    width = 3 * heads * head_dim
    sizes = (width,) if columns else ()
    args = (_bytes(rng, np.uint8, batch, seq, features), _bytes(rng, np.int8, features, width), rng.standard_normal(width).astype(np.float32), _scalar(0.01), np.asarray(rng.random(sizes) * 0.02, np.float32), np.array([2, 4], np.int32), _scalar(120, np.uint8), np.full(sizes, 3, np.int8))  # fmt: skip
    options = {"num_heads": heads, "unidirectional": unidirectional, **MICROSOFT}
    assert_same(
        run_cpu("QAttention", *args, **options), run_ort("QAttention", *args, **options), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings(segments):
    rng = fresh_rng()
    ids, mask = rng.integers(0, 5, (2, 3)).astype(np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [_bytes(rng, np.uint8, rows, 8) for rows in (5, 4, 2)] + [
        _bytes(rng, np.uint8, 8) for _ in range(2)
    ]
    scales, zeros = [_scalar(0.1)] * 5, [_bytes(rng, np.uint8) for _ in range(5)]
    segment_ids = (ids > 2).astype(np.int32)
    if not segments:
        segment_ids = tables[2] = scales[2] = zeros[2] = None
    args = (ids, segment_ids, *tables, mask, *scales, *zeros)
    options = {"outputs": 2, "epsilon": 1e-5, **MICROSOFT}
    got = run_cpu("QEmbedLayerNormalization", *args, **options)
    assert_same(got, run_ort("QEmbedLayerNormalization", *args, **options), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm_with_quantized_weights(dtype, direction):
    rng = fresh_rng()
    directions, steps, batch, features, hidden = 1 + (direction == "bidirectional"), 4, 2, 3, 5

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    args = (
        normal(steps, batch, features), _bytes(rng, dtype, directions, features, 4 * hidden),
        _bytes(rng, dtype, directions, hidden, 4 * hidden), normal(directions, 8 * hidden),
        np.array([3, 4], np.int32), normal(directions, batch, hidden), normal(directions, batch, hidden), None,
        np.full(directions, 0.01, np.float32), np.full(directions, 5, dtype),
        np.full(directions, 0.01, np.float32), np.full(directions, 3, dtype),
    )  # fmt: skip
    options = {"outputs": 3, "direction": direction, "hidden_size": hidden, "constants": (1, 2), **MICROSOFT}
    # A hidden state that falls on the other side of a rounding moves the result by one step of 1/255.
    got = run_cpu("DynamicQuantizeLSTM", *args, **options)
    assert_same(got, run_ort("DynamicQuantizeLSTM", *args, **options), rtol=0.05, atol=0.05)
