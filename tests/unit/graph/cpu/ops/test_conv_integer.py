"""Convolutions of quantized tensors."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

WINDOWS = {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}


def _case(rng, group, outs=3, size=(8, 7)):
    x = rng.integers(0, 256, (2, 2 * group, *size)).astype(np.uint8)
    return x, rng.integers(-128, 128, (outs * group, 2, 3, 2)).astype(np.int8)


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


@pytest.mark.parametrize("signed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("turn", range(4))
def test_any_window_of_any_bytes(signed, rank, turn):
    rng = fresh_rng()
    group, channels, outs = (int(rng.integers(1, limit)) for limit in (3, 6, 12))
    kernel, strides, dilations = (tuple(rng.integers(1, limit, rank).tolist()) for limit in (5, 4, 3))
    pads = tuple(rng.integers(0, 4, 2 * rank).tolist())
    size = tuple(rng.integers(9, 30, rank).tolist())
    kinds = [np.int8 if each else np.uint8 for each in signed]
    shapes = (2, group * channels, *size), (group * outs, channels, *kernel)
    x, w = (
        rng.integers(*_limits(kind), shape).astype(kind) for kind, shape in zip(kinds, shapes, strict=True)
    )
    zeros = [
        rng.integers(*_limits(kind), count).astype(kind)
        for kind, count in zip(kinds, (1, group * outs), strict=True)
    ]
    options = {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
    spread = zeros[1].astype(np.float64).reshape(-1, *(1,) * (rank + 1))
    want = run_cpu("Conv", x.astype(np.float64) - zeros[0], w.astype(np.float64) - spread, **options)
    for constants in ((), (1, 3)):
        got = run_cpu("ConvInteger", x, w, zeros[0].reshape(()), zeros[1], constants=constants, **options)
        assert_same(got, want.astype(np.int32))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("window", [WINDOWS, {}])
def test_requantized_in_tiles(group, biased, window):
    rng = fresh_rng()
    x, w = _case(rng, group, 9, (20, 17))
    w = w if window else w[:, :, :1, :1]
    bias = [rng.integers(-5000, 5000, 9 * group).astype(np.int32)] if biased else []
    scales = (rng.random(9 * group) * 0.1).astype(np.float32)
    parameters = (np.array(0.02, np.float32), np.array(120, np.uint8), np.ascontiguousarray(w), scales, np.zeros(9 * group, np.int8), np.array(2, np.float32), np.array(9, np.uint8), *bias)  # fmt: skip
    options = {"group": group, **window}
    want = run_ort("QLinearConv", x, *parameters, opset=10, **options)
    for constants in ((), (1, 2, 3, 4, 5, 6, 7)):
        got = run_cpu("QLinearConv", x, *parameters, opset=10, constants=constants, **options)
        assert got.shape == want.shape and np.abs(got.astype(int) - want.astype(int)).max() <= 1


def _limits(kind):
    info = np.iinfo(kind)
    return info.min, info.max + 1
