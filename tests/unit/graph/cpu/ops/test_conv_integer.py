"""Convolutions of quantized tensors."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

WINDOWS = {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}


def _case(rng, group):
    x = rng.integers(0, 256, (2, 2 * group, 8, 7)).astype(np.uint8)
    return x, rng.integers(-128, 128, (3 * group, 2, 3, 2)).astype(np.int8)


@pytest.mark.parametrize("group", [1, 2])
def test_sums_are_exact_and_padding_is_the_zero_point(group):
    x, w = _case(fresh_rng(), group)
    args, options = (x, w, np.array(17, np.uint8)), {"group": group, **WINDOWS}
    assert_same(run_cpu("ConvInteger", *args, **options), run_ort("ConvInteger", *args, opset=10, **options))


def test_weights_may_have_a_zero_point_for_each_output():
    rng = fresh_rng()
    x, w = _case(rng, 1)
    zeros = rng.integers(-9, 9, 3).astype(np.int8)
    got = run_cpu("ConvInteger", x, w, np.array(3, np.uint8), zeros, **WINDOWS)
    real = run_cpu(
        "Conv", x.astype(np.float64) - 3, w.astype(np.float64) - zeros[:, None, None, None], **WINDOWS
    )
    assert_same(got, real.astype(np.int32))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_requantized(group, last):
    rng = fresh_rng()
    x, w = _case(rng, group)
    b = rng.integers(-5000, 5000, 3 * group).astype(np.int32)
    parameters = (np.array(0.02, np.float32), np.array(120, np.uint8), w, (rng.random(3 * group) * 0.1).astype(np.float32), np.zeros(3 * group, np.int8), np.array(2, np.float32), np.array(9, np.uint8), b)  # fmt: skip
    options = {"group": group, **WINDOWS}
    options |= {"domain": "com.microsoft", "channels_last": 1} if last else {"opset": 10}
    args = (np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x, *parameters)
    got, want = run_cpu("QLinearConv", *args, **options), run_ort("QLinearConv", *args, **options)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
