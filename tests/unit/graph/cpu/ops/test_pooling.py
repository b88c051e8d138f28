"""Pooling against ONNX Runtime over random windows."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

POOLS = [
    ("MaxPool", {}),
    ("MaxPool", {"outputs": 2, "storage_order": 0}),
    ("MaxPool", {"outputs": 2, "storage_order": 1}),
    ("AveragePool", {"count_include_pad": 0}),
    ("AveragePool", {"count_include_pad": 1}),
    ("LpPool", {"p": 1}),
    ("LpPool", {"p": 3}),
]


@pytest.mark.parametrize(("op_type", "options"), POOLS)
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_any_window(op_type, options, auto_pad, rank):
    rng = fresh_rng()
    for ceil_mode in (0, 1):
        kernel, strides = rng.integers(1, 5, rank), rng.integers(1, 4, rank)
        if auto_pad.startswith("SAME"):  # ONNX Runtime cuts where the standard's padding would be below 0
            strides = np.minimum(strides, kernel)
        x = rng.standard_normal((2, 3, *rng.integers(7, 10, rank))).astype(np.float32)
        windows = {
            "kernel_shape": kernel.tolist(),
            "strides": strides.tolist(),
            "ceil_mode": ceil_mode,
            "auto_pad": auto_pad,
        }
        if auto_pad == "NOTSET":
            windows["pads"] = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
            windows["dilations"] = rng.integers(1, 3, rank).tolist()
        got = run_cpu(op_type, x, opset=19, **options, **windows)
        assert_same(got, run_ort(op_type, x, opset=19, **options, **windows), rtol=1e-4)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_strides_and_types_of_inputs_do_not_matter(op_type):
    x = fresh_rng().standard_normal((70, 9, 3, 2)).astype(np.float32)
    windows = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 1, 1, 0]}
    want = run_cpu(op_type, np.ascontiguousarray(x.T), **windows)
    assert_same(run_cpu(op_type, x.T, **windows), want)
    assert_same(run_cpu(op_type, x.T.astype(np.float64), **windows), want, types=False)
    half = run_cpu(op_type, x.T.astype(np.float16), **windows)
    assert half.dtype == np.float16
    assert_same(half, want, rtol=2e-3, atol=2e-3, types=False)


def test_windows_larger_than_the_output_has_elements():
    x = fresh_rng().standard_normal((1, 2, 40, 40)).astype(np.float32)
    for op_type in ("MaxPool", "AveragePool"):
        windows = {"kernel_shape": [40, 20], "pads": [1, 2, 1, 2]}
        assert_same(run_cpu(op_type, x, **windows), run_ort(op_type, x, opset=21, **windows), rtol=1e-4)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad"), [(1, 2, 2, 0), (1, 3, 2, 0), (1, 3, 4, 0), (1, 4, 2, 1)]
)
def test_an_input_that_is_too_short_for_a_window(op_type, size, kernel, stride, pad):
    x = fresh_rng().standard_normal((1, 2, size)).astype(np.float32)
    windows = {"kernel_shape": [kernel], "strides": [stride], "pads": [pad, pad]}
    assert_same(run_cpu(op_type, x, **windows), run_ort(op_type, x, opset=21, **windows))


def test_the_first_of_equal_elements_is_the_largest():
    _, index = run_cpu("MaxPool", np.zeros((1, 1, 3, 3), np.float32), outputs=2, kernel_shape=[2, 2])
    assert index.tolist() == [[[[0, 1], [3, 4]]]]


def test_nan_is_the_largest():
    x = np.array([[[1, np.nan, 0, 2]]], np.float32)
    y, index = run_cpu("MaxPool", x, outputs=2, kernel_shape=[2])
    assert np.isnan(y[0, 0, :2]).all() and y[0, 0, 2] == 2
    assert index.tolist() == [[[1, 1, 3]]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_have_a_lowest_value(dtype):
    x = fresh_rng().integers(-128 if dtype == np.int8 else 0, 127, (1, 2, 5, 5)).astype(dtype)
    windows = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    assert_same(run_cpu("MaxPool", x, opset=12, **windows), run_ort("MaxPool", x, opset=12, **windows))


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 2, 2)])
def test_over_the_whole_image(op_type, shape):
    x = fresh_rng().standard_normal(shape).astype(np.float32)
    assert_same(run_cpu(op_type, x), run_ort(op_type, x, opset=21), rtol=1e-4)


def test_float16_is_averaged_in_float32():
    x = np.full((1, 1, 4096), 100, np.float16)  # their sum is beyond float16
    assert run_cpu("AveragePool", x, kernel_shape=[4096]).tolist() == [[[100]]]
    assert run_cpu("GlobalAveragePool", x).tolist() == [[[100]]]


def test_unpooling_puts_elements_back():
    x = fresh_rng().standard_normal((1, 2, 4, 6)).astype(np.float32)
    y, index = run_cpu("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    back = run_cpu("MaxUnpool", y, index, **windows)
    assert_same(back, run_ort("MaxUnpool", y, index, opset=11, **windows))
    assert_same(back[back != 0], x[back != 0])


def test_unpooling_into_a_larger_tensor():
    y, index = np.array([[[[5, 7]]]], np.float32), np.array([[[[1, 3]]]])
    got = run_cpu("MaxUnpool", y, index, np.array([1, 1, 3, 5]), kernel_shape=[1, 2], strides=[1, 2])
    assert got[0, 0].tolist() == [[0, 5, 0, 7, 0], [0] * 5, [0] * 5]
