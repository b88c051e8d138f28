"""Attention of the standard."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference
from onnxgen.errors import KernelError


def tensors(batch=2, heads=4, kv_heads=2, seq=3, keys=5, dim=8, v_dim=6) -> list[np.ndarray]:
    rng = fresh_rng()
    shapes = (batch, heads, seq, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, v_dim)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def exact(q, k, v, allowed, *, scale=None, softcap=0.0, bias=0.0) -> np.ndarray:
    """Attention in float64 by its formula."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -0.5)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    powers = np.where(allowed, np.exp(scores + bias), 0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total) @ v


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"softcap": 2.0}])
def test_heads_share_keys(options):
    q, k, v = tensors()
    got = run_cpu("Attention", q, k, v, **options)
    assert_same(got, exact(q, k, v, True, **options).astype(np.float32))


def test_three_axes_hold_the_heads_in_the_last():
    q, k, v = tensors()
    flat = [x.swapaxes(1, 2).reshape(2, x.shape[2], -1) for x in (q, k, v)]
    got = run_cpu("Attention", *flat, q_num_heads=4, kv_num_heads=2)
    assert_same(got, exact(q, k, v, True).swapaxes(1, 2).reshape(2, 3, -1).astype(np.float32))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("boolean", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_masks_of_every_rank_compose_with_the_causal_one(rank, boolean, causal):
    q, k, v = tensors()
    rng = fresh_rng()
    mask = rng.random((2, 4, 3, 5)[4 - rank :]) < 0.7
    allowed = np.arange(5) <= np.arange(3)[:, None] if causal else np.ones((3, 5), bool)
    bias = np.zeros(mask.shape) if boolean else rng.standard_normal(mask.shape)
    given = mask if boolean else np.where(mask, bias, -np.inf).astype(np.float32)
    got = run_cpu("Attention", q, k, v, given, is_causal=causal)
    assert_same(got, exact(q, k, v, allowed & mask, bias=bias).astype(np.float32), atol=1e-5)


def test_a_short_mask_hides_the_rest():
    q, k, v = tensors()
    for mask in (np.ones((3, 2), bool), np.zeros((3, 2), np.float32)):
        assert_same(run_cpu("Attention", q, k, v, mask), exact(q, k, v, np.arange(5) < 2).astype(np.float32))


def test_the_past_comes_before_new_keys():
    q, k, v = tensors(keys=3)
    _, past_k, past_v = tensors(keys=4)
    y, present_k, present_v = run_cpu("Attention", q, k, v, None, past_k, past_v, is_causal=1, outputs=3)
    assert_same(present_k, np.concatenate((past_k, k), 2))
    assert_same(present_v, np.concatenate((past_v, v), 2))
    allowed = np.arange(7) <= np.arange(3)[:, None] + 4
    assert_same(y, exact(q, present_k, present_v, allowed).astype(np.float32))


def test_a_cache_outside_has_lengths():
    q, k, v = tensors(keys=6)
    lengths = np.array([6, 2])
    position = lengths.reshape(2, 1, 1, 1) - 3 + np.arange(3)[:, None]
    allowed = (np.arange(6) <= position) & (np.arange(6) < lengths.reshape(2, 1, 1, 1))
    y = run_cpu("Attention", q, k, v, None, None, None, lengths, is_causal=1)
    assert_same(y, exact(q, k, v, allowed).astype(np.float32))
    assert not y[1, :, 0].any()  # the first query of the second sample sees nothing


@pytest.mark.parametrize("left", [-1, 0, 2])
@pytest.mark.parametrize("right", [-1, 0, 1])
@pytest.mark.parametrize("causal", [0, 1])
def test_windows_bound_what_is_seen(left, right, causal):
    q, k, v = tensors(seq=4, keys=6)
    ahead = np.arange(6) - np.arange(4)[:, None]
    allowed = (
        ((ahead >= -left) | (left < 0)) & ((ahead <= right) | (right < 0)) & ((ahead <= 0) | (not causal))
    )
    got = run_cpu(
        "Attention", q, k, v, opset=25, is_causal=causal, left_window_size=left, right_window_size=right
    )
    assert_same(got, exact(q, k, v, allowed).astype(np.float32))


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_any_stage_can_be_an_output(mode):
    q, k, v = tensors(kv_heads=4)
    mask = fresh_rng().random((3, 5)) < 0.7
    options = {"softcap": 1.5, "qk_matmul_output_mode": mode, "outputs": [True, False, False, True]}
    y, _, _, stage = run_cpu("Attention", q, k, v, mask, **options)
    scores = q @ k.swapaxes(2, 3) * 8**-0.5
    capped = 1.5 * np.tanh(scores / 1.5)
    masked = np.where(mask, capped, -np.inf)
    if mode < 3:
        assert_same(stage, [scores, capped, masked][mode].astype(np.float32))
    else:
        assert_same(stage @ v, y)


def test_a_query_that_sees_nothing_gives_zeros_even_from_infinite_scores():
    q, k, v = tensors()
    q[0, 0, 0, 0] = k[0, 0, 0, 0] = np.inf
    mask = np.ones((3, 5), bool)
    mask[0] = False
    assert not run_cpu("Attention", q, k, v, mask)[:, :, 0].any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("precision", [None, 1, 11])
def test_halves_stay_close_to_float64(dtype, precision):
    q, k, v = (x.astype(dtype) for x in tensors())
    options = {} if precision is None else {"softmax_precision": precision}
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert_same(
        run_cpu("Attention", q, k, v, **options),
        exact(q, k, v, True).astype(dtype),
        rtol=4 * eps,
        atol=4 * eps,
    )


def test_onnx_runtime_agrees():
    q, k, v = tensors()
    mask = np.where(fresh_rng().random((3, 5)) < 0.7, 0, -1).astype(np.float32)
    options = {"opset": 23, "is_causal": 1, "scale": 0.4}
    assert_same(
        run_cpu("Attention", q, k, v, mask, **options), run_ort("Attention", q, k, v, mask, **options)
    )
    assert_same(
        run_cpu("Attention", q, k, v, mask, **options), run_reference("Attention", q, k, v, mask, **options)
    )


def test_what_does_not_fit_is_told():
    q, k, v = tensors(heads=3)
    with pytest.raises(KernelError, match="3 query heads do not share 2 key heads"):
        run_cpu("Attention", q, k, v)
    with pytest.raises(KernelError, match="does not split into q_num_heads=5"):
        run_cpu("Attention", q[0], k[0], v[0], q_num_heads=5, kv_num_heads=2)
    with pytest.raises(KernelError, match="past_key and past_value come together"):
        run_cpu("Attention", q, k, v, None, k)
    with pytest.raises(KernelError, match="left_window_size is -2"):
        run_cpu("Attention", q, k, v, left_window_size=-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_asking_for_a_stage_changes_nothing_else(dtype):
    """Stages that are outputs are computed step by step, all else in compiled blocks."""
    rng = fresh_rng()
    # many times: memory that blocks work in must not be that of somebody else, wherever it comes to lie
    shapes = [(1, 300, (8, 2)), (70, 70, (6, 6)), (33, 129, (14, 2))]
    for seq, keys, heads in 10 * shapes:
        q, k, v = (x.astype(dtype) for x in tensors(2, *heads, seq, keys, 40, 24))
        masks = [None, rng.random((2, 1, seq, keys)) < 0.7, rng.standard_normal((seq, keys)).astype(dtype)]
        for mask in masks:
            options = {"is_causal": int(rng.integers(2)), "softcap": float(rng.choice([0.0, 3.0]))}
            options |= {"left_window_size": int(rng.integers(-1, 90)), "opset": 25}
            given = [q, k, v] if mask is None else [q, k, v, mask]
            blocks = run_cpu("Attention", *given, **options)
            steps = run_cpu("Attention", *given, outputs=[True, False, False, True], **options)
            tolerance = 1e-5 if dtype == np.float32 else 2e-3
            assert_same(blocks, steps[0], rtol=tolerance, atol=tolerance)
