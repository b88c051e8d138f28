"""Convolution against ONNX Runtime over random shapes and attributes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort
from onnxgen.errors import KernelError


def _case(rng, rank, group, *, depthwise=False):
    kernel, sizes = rng.integers(1, 4, rank), rng.integers(7, 11, rank)
    channels = group if depthwise else 2 * group
    x = rng.standard_normal((2, channels, *sizes)).astype(np.float32)
    w = rng.standard_normal((3 * group, channels // group, *kernel)).astype(np.float32)
    attributes = {
        "group": group,
        "strides": rng.integers(1, 4, rank).tolist(),
        "dilations": rng.integers(1, 3, rank).tolist(),
        "pads": rng.integers(0, 3, 2 * rank).tolist(),
    }
    return x, w, rng.standard_normal(3 * group).astype(np.float32), attributes


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_any_rank_group_stride_dilation_and_padding(rank, group, depthwise):
    rng = fresh_rng()
    for _ in range(6):
        x, w, b, attributes = _case(rng, rank, group, depthwise=depthwise)
        assert_same(
            run_cpu("Conv", x, w, b, **attributes),
            run_ort("Conv", x, w, b, opset=21, **attributes),
            atol=1e-4,
        )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("group", [1, 2])
def test_automatic_padding(auto_pad, group):
    x, w, b, attributes = _case(fresh_rng(), 2, group)
    attributes = {"group": group, "strides": attributes["strides"], "auto_pad": auto_pad}
    assert_same(
        run_cpu("Conv", x, w, b, **attributes), run_ort("Conv", x, w, b, opset=21, **attributes), atol=1e-4
    )


def test_pointwise_and_without_bias():
    rng = fresh_rng()
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 4, 3), (7, 5, 1, 1)))
    assert_same(run_cpu("Conv", x, w), np.einsum("bchw,oc->bohw", x, w[:, :, 0, 0]), atol=1e-5)


def test_images_larger_than_a_block_of_columns():
    rng = fresh_rng()
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 200, 190), (4, 16, 3, 3)))
    got = run_cpu("Conv", x, w, pads=[1, 1, 1, 1])
    assert_same(got, run_ort("Conv", x, w, opset=21, pads=[1, 1, 1, 1]), atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_types_sum_in_a_wide_type(dtype):
    rng = fresh_rng()
    x, w = rng.standard_normal((1, 64, 5)).astype(dtype), rng.standard_normal((2, 64, 3)).astype(dtype)
    shown = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 3, axis=2)
    expected = np.einsum("bclk,ock->bol", shown, w.astype(np.float64)).astype(dtype)
    assert_same(run_cpu("Conv", x, w), expected, rtol=2 * float(ml_dtypes.finfo(dtype).eps), atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 6])
def test_rows_longer_than_a_panel(stride, group):
    rng = fresh_rng()
    x = rng.standard_normal((2, 6, 9, 301)).astype(np.float32)
    w = rng.standard_normal((12, 6 // group, 3, 7)).astype(np.float32)
    attributes = {"group": group, "strides": [1, stride], "pads": [1, 4, 1, 2]}
    assert_same(run_cpu("Conv", x, w, **attributes), run_ort("Conv", x, w, opset=21, **attributes), atol=1e-4)


def test_sums_deeper_than_a_panel_and_more_rows_than_a_tile():
    rng = fresh_rng()
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 130, 7, 7), (141, 130, 3, 3)))
    b = rng.standard_normal(141).astype(np.float32)
    attributes = {"pads": [1, 1, 1, 1], "constants": [1, 2]}
    assert_same(
        run_cpu("Conv", x, w, b, **attributes), run_ort("Conv", x, w, b, opset=21, **attributes), atol=1e-3
    )


@pytest.mark.parametrize("group", [1, 4])
def test_strides_of_inputs_do_not_matter(group):
    rng = fresh_rng()
    x = rng.standard_normal((9, 2, 8, 4)).astype(np.float32)
    w = rng.standard_normal((3, 2, 4 // group, 4)).astype(np.float32)
    seen = (x.transpose(1, 3, 2, 0), w.transpose(3, 2, 1, 0))
    got = run_cpu("Conv", *seen, group=group)
    assert_same(got, run_cpu("Conv", *map(np.ascontiguousarray, seen), group=group))


def test_nan_and_infinity_stay_in_the_windows_that_see_them():
    x = np.zeros((1, 1, 4, 40), np.float32)
    x[0, 0, 1, 20], x[0, 0, 1, 30] = np.nan, np.inf
    y = run_cpu("Conv", x, np.ones((2, 1, 1, 3), np.float32), pads=[0, 1, 0, 1])
    assert np.isnan(y[0, :, 1, 19:22]).all() and np.isposinf(y[0, :, 1, 29:32]).all()
    assert np.isfinite(y).sum() == y.size - 12


def test_no_images_give_no_images():
    assert run_cpu("Conv", np.zeros((0, 2, 5), np.float32), np.zeros((3, 2, 3), np.float32)).shape == (
        0,
        3,
        3,
    )


def test_weights_that_do_not_fit_are_told():
    with pytest.raises(KernelError, match=r"weights \(3, 2, 3\) in 1 groups do not fit 4 input channels"):
        run_cpu("Conv", np.zeros((1, 4, 5), np.float32), np.zeros((3, 2, 3), np.float32))


@pytest.mark.parametrize(
    ("activation", "params"),
    [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])],
)  # fmt: skip
def test_fused_activations(activation, params):
    x, w, b, attributes = _case(fresh_rng(), 2, 2)
    attributes |= {"activation": activation, "domain": "com.microsoft"}
    attributes |= {"activation_params": params} if params else {}
    assert_same(
        run_cpu("FusedConv", x, w, b, **attributes), run_ort("FusedConv", x, w, b, **attributes), atol=1e-4
    )


def test_fused_sum_comes_before_the_activation():
    x, w, b, attributes = _case(fresh_rng(), 2, 1)
    z = run_cpu("Conv", x, w, b, **attributes)
    got = run_cpu("FusedConv", x, w, b, -2 * z, domain="com.microsoft", activation="Relu", **attributes)
    assert_same(got, np.maximum(-z, 0), atol=1e-5)


def test_channels_last():
    x, w, b, attributes = _case(fresh_rng(), 2, 2)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    expected = np.moveaxis(run_cpu("Conv", x, w, b, **attributes), 1, -1)
    for op_type in ("NhwcConv", "NhwcFusedConv"):
        assert_same(run_cpu(op_type, last, w, b, domain="com.microsoft", **attributes), expected)
