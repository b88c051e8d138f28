from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu
from onnxgen.errors import KernelError

MS = "com.microsoft"
BATCH, SEQ, HEADS, DIM = 3, 4, 2, 4
HIDDEN = HEADS * DIM
COUNTS = np.array([1, 2, 4], np.int32)


class Numbers:
    def __init__(self):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)


def removed(x):
    return run_cpu("RemovePadding", x, COUNTS, domain=MS, outputs=4)


def test_padding_goes_and_comes_back():
    x = np.arange(BATCH * SEQ * 2, dtype=np.float32).reshape(BATCH, SEQ, 2)
    packed, offsets, ends, longest = removed(x)
    assert offsets.ravel().tolist() == [0, 4, 5, 8, 9, 10, 11, 1, 2, 3, 6, 7]
    assert ends.tolist() == [0, 1, 3, 7]
    assert longest.tolist() == [4]
    assert packed[:, 0].tolist() == [0, 8, 10, 16, 18, 20, 22]
    real = (np.arange(SEQ) < COUNTS[:, None])[..., None]
    assert_same(run_cpu("RestorePadding", packed, offsets, domain=MS), x * real)


def test_more_tokens_than_places_are_an_error():
    x, offsets = np.zeros((5, 2)), np.zeros((2, 2), np.int32)
    with pytest.raises(KernelError, match="5 tokens do not fit"):
        kernel_of(node_spec("RestorePadding", x, offsets, domain=MS)).run(x, offsets)


@pytest.mark.parametrize("biased", [False, True])
def test_packed_attention_is_that_of_the_padded_batch(biased):
    make = Numbers()
    x, weights, bias = make.floats(BATCH, SEQ, 6), make.floats(6, 3 * HIDDEN), make.floats(3 * HIDDEN)
    extra = make.floats(BATCH, HEADS, SEQ, SEQ) if biased else None
    packed, offsets, ends, _ = removed(x)
    options = {"domain": MS, "num_heads": HEADS}
    want = run_cpu("Attention", x, weights, bias, COUNTS, None, extra, **options)
    want = removed(want)[0]
    got = run_cpu("PackedAttention", packed, weights, bias, offsets, ends, extra, **options)
    assert_same(got, want, rtol=1e-4, atol=1e-5)
    parts = np.split(packed @ weights, 3, axis=1)
    got = run_cpu("PackedMultiHeadAttention", *parts, bias, offsets, ends, extra, **options)
    assert_same(got, want, rtol=1e-4, atol=1e-5)
    together = np.stack([part.reshape(-1, HEADS, DIM) for part in parts], axis=2)
    got = run_cpu("PackedMultiHeadAttention", together, None, None, bias, offsets, ends, extra, **options)
    assert_same(got, want, rtol=1e-4, atol=1e-5)


def bucket(distance, *, both_ways, buckets, farthest):
    """T5's bucket of ``key - query``, by its definition."""
    n, start = -distance, 0
    if both_ways:
        buckets //= 2
        start, n = (buckets if n < 0 else 0), abs(n)
    n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return start + n
    far = exact + int(np.float32(np.log(n / exact)) / np.log(farthest / exact) * (buckets - exact))
    return start + min(far, buckets - 1)


@pytest.mark.parametrize("both_ways", [0, 1])
def test_distances_have_buckets(both_ways):
    table, length = Numbers().floats(8, 3), 40
    inputs = table, np.array([length], np.int64), np.array([length], np.int64)
    y = run_cpu("RelativePositionBias", *inputs, domain=MS, is_bidirectional=both_ways, max_distance=21)
    assert y.shape == (1, 3, length, length)
    for query, key in [(0, 0), (5, 2), (2, 5), (39, 0), (0, 39), (20, 13), (13, 20)]:
        row = bucket(key - query, both_ways=both_ways, buckets=8, farthest=21)
        assert_same(y[0, :, query, key], table[row])


@pytest.mark.parametrize("packed", [False, True])
def test_gates_of_queries_scale_the_bias(packed):
    make = Numbers()
    x, x_bias, positions = (
        make.floats(BATCH, SEQ, HIDDEN),
        make.floats(HIDDEN),
        make.floats(1, HEADS, SEQ, SEQ),
    )
    weight, bias, eco = make.floats(DIM, 8), make.floats(8), make.floats(1, HEADS, 1, 1)
    inputs = [x, x_bias, positions, weight, bias, eco]
    real = np.ones((BATCH, 1, SEQ, 1), bool)
    if packed:
        tokens, offsets, *_ = removed(x)
        inputs[0], real = tokens, (np.arange(SEQ) < COUNTS[:, None])[:, None, :, None]
        inputs.append(offsets)
    query = (x + x_bias).reshape(BATCH, SEQ, HEADS, DIM).swapaxes(1, 2).astype(np.float64)
    u, r = np.moveaxis(
        1 / (1 + np.exp(-(query @ weight + bias).reshape(BATCH, HEADS, SEQ, 2, 4).sum(-1))), -1, 0
    )
    want = (u * (r * eco[..., 0] - 1) + 2)[..., None] * positions
    got = run_cpu("GatedRelativePositionBias", *inputs, domain=MS, num_heads=HEADS)
    assert_same(got * real, (want * real).astype(np.float32), rtol=1e-4, atol=1e-5)
