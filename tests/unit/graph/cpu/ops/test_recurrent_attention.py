"""LinearAttention, CausalConvWithState, TensorScatter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_reference
from onnxgen.errors import KernelError


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("with_past", [False, True])
def test_linear_attention_gives_what_the_reference_gives(rule, per_key, with_past):
    rng = fresh_rng()
    batch, seq, heads, kv_heads, dim, v_dim = 2, 5, 4, 2, 3, 6

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32) / 2

    inputs = [
        normal(batch, seq, heads * dim),
        normal(batch, seq, kv_heads * dim),
        normal(batch, seq, kv_heads * v_dim),
    ]
    inputs.append(normal(batch, kv_heads, dim, v_dim) if with_past else None)
    inputs.append(
        -np.abs(normal(batch, seq, kv_heads * (dim if per_key else 1))) if "gated" in rule else None
    )
    inputs.append(rng.random((batch, seq, kv_heads)).astype(np.float32) if "delta" in rule else None)
    options = {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule, "outputs": 2}
    got = run_cpu("LinearAttention", *inputs, **options)
    assert_same(got, run_reference("LinearAttention", *inputs, **options), rtol=1e-4, atol=1e-5)


def test_tokens_one_by_one_give_what_they_give_together():
    rng = fresh_rng()
    q, k, v = rng.standard_normal((3, 1, 6, 4)).astype(np.float32)
    options = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear", "outputs": 2}
    together, last = run_cpu("LinearAttention", q, k, v, **options)
    state = np.zeros((1, 2, 2, 2), np.float32)
    for token in range(6):
        part = slice(token, token + 1)
        y, state = run_cpu("LinearAttention", q[:, part], k[:, part], v[:, part], state, **options)
        assert_same(y, together[:, part], rtol=1e-4, atol=1e-5)
    assert_same(state, last, rtol=1e-4, atol=1e-5)


def test_a_rule_without_its_inputs_is_told():
    x = np.ones((1, 2, 4), np.float32)
    with pytest.raises(KernelError, match="gated takes a decay and no beta"):
        run_cpu("LinearAttention", x, x, x, q_num_heads=2, kv_num_heads=2, update_rule="gated", outputs=2)


@pytest.mark.parametrize("taps", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("full", [False, True])
def test_causal_convolution_gives_what_the_reference_gives(taps, length, activation, full):
    rng = fresh_rng()
    x, weight = rng.standard_normal((2, 3, length)), rng.standard_normal((3, 1, taps))
    more = [rng.standard_normal(3), rng.standard_normal((2, 3, taps - 1))] if full else []
    inputs = [v.astype(np.float32) for v in (x, weight, *more)]
    options = {"activation": activation, "outputs": 2}
    got = run_cpu("CausalConvWithState", *inputs, **options)
    assert_same(got, run_reference("CausalConvWithState", *inputs, **options))


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2, -1])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_updates_are_written_from_an_index_on(mode, axis, dtype):
    rng = fresh_rng()
    cache = rng.integers(-9, 9, (3, 6, 5, 7)).astype(dtype)
    shape = list(cache.shape)
    shape[axis] = 2
    update = rng.integers(-9, 9, shape).astype(dtype)
    capacity = cache.shape[axis]
    indices = np.array([0, capacity - 2, capacity - 1 if mode == "circular" else 1])
    options = {"mode": mode, "axis": axis}
    got = run_cpu("TensorScatter", cache, update, indices, **options)
    assert_same(got, run_reference("TensorScatter", cache, update, indices, **options))


def test_an_update_that_does_not_fit_is_told():
    cache, update = np.zeros((1, 4, 2), np.float32), np.zeros((1, 3, 2), np.float32)
    with pytest.raises(KernelError, match="3 positions from 2 on do not fit a cache of 4"):
        run_cpu("TensorScatter", cache, update, np.array([2]))
