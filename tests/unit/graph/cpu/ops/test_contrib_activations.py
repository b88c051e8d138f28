from __future__ import annotations

from math import erf

import numpy as np
import pytest

from kernel_runs import assert_same, run_cpu, run_ort

MS = "com.microsoft"


def numbers(*shape, dtype=np.float32):
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float16, 4e-3)])
def test_activations_are_the_runtimes(dtype, tolerance):
    x, bias = numbers(3, 8, dtype=dtype), numbers(8, dtype=dtype)
    for op_type, inputs, options in [
        ("Gelu", (x,), {}),
        ("BiasGelu", (x, bias), {}),
        ("FastGelu", (x,), {}),
        ("FastGelu", (x, bias), {}),
        ("QuickGelu", (x,), {}),
        ("QuickGelu", (x,), {"alpha": 1.0}),
    ]:
        got, want = (run(op_type, *inputs, domain=MS, **options) for run in (run_cpu, run_ort))
        assert_same(got, want, rtol=tolerance, atol=tolerance)


def test_extremes_do_not_overflow():
    x = np.array([-1e30, 1e30, -0.0, np.inf, np.nan], np.float32)
    assert_same(run_cpu("QuickGelu", x, domain=MS), np.array([0, 1e30, 0, np.inf, np.nan], np.float32))


def test_sums_and_halves():
    x, bias, skip = numbers(2, 3, 8), numbers(8), numbers(2, 3, 8)
    assert_same(run_cpu("BiasAdd", x, bias, skip, domain=MS), x + bias + skip)
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    want = left * right * 0.5 * (1 + np.vectorize(erf)(right / np.sqrt(2)))
    assert_same(run_cpu("BiasSplitGelu", x, bias, domain=MS), want.astype(np.float32), atol=1e-5)


@pytest.mark.parametrize(
    ("axis", "bias_shape"), [(3, (2, 1, 1, 5)), (-1, (4, 5)), (2, (2, 3, 4, 5)), (1, (5,))]
)
def test_softmax_of_a_sum(axis, bias_shape):
    x, bias = numbers(2, 3, 4, 5), numbers(*bias_shape)
    total = (x + bias).astype(np.float64)
    axes = tuple(range(axis % 4, 4))
    e = np.exp(total - total.max(axis=axes, keepdims=True))
    got = run_cpu("BiasSoftmax", x, bias, domain=MS, axis=axis, is_inner_broadcast=1)
    assert_same(got, (e / e.sum(axis=axes, keepdims=True)).astype(np.float32))
