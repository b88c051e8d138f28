"""Softmax, LogSoftmax, Hardmax."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

OPERATORS = ["Softmax", "LogSoftmax", "Hardmax"]


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_every_version_gives_what_onnx_runtime_gives(op_type, opset, axis):
    if opset == 1 and axis == -1:
        pytest.skip("version 1 counts axes from the front only")
    x = 4 * fresh_rng().standard_normal((3, 5, 7)).astype(np.float32)
    options = {"opset": max(opset, 7)} | ({} if axis is None else {"axis": axis})
    assert_same(run_cpu(op_type, x, **options), run_ort(op_type, x, **options), atol=2e-6)


def test_versions_before_13_see_all_later_axes_as_one():
    x = fresh_rng().standard_normal((2, 3, 4)).astype(np.float32)
    assert_same(run_cpu("Softmax", x, opset=11).sum((1, 2)), np.ones(2, np.float32))
    assert_same(run_cpu("Softmax", x, opset=13).sum(-1), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (4, 0)])
def test_shapes_at_the_edge(op_type, shape):
    x = np.zeros(shape, np.float32)
    assert_same(run_cpu(op_type, x), np.full(shape, 0 if op_type == "LogSoftmax" else 1, np.float32))


def test_far_values_and_hidden_ones():
    x = np.array([[1e4, -1e4, 0], [-np.inf, 0, 0], [-np.inf] * 3], np.float32)
    expected = np.array([[1, 0, 0], [0, 0.5, 0.5], [np.nan] * 3], np.float32)
    assert_same(run_cpu("Softmax", x), expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("length", [5, 1000])
def test_halves_stay_close_to_float64(dtype, length):
    x = fresh_rng().standard_normal((3, length)).astype(dtype)
    powers = np.exp(x.astype(np.float64))
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert_same(run_cpu("Softmax", x), (powers / powers.sum(-1, keepdims=True)).astype(dtype), rtol=4 * eps)


def test_hardmax_takes_the_first_of_equals():
    assert run_cpu("Hardmax", np.array([[1, 3, 3], [2, 2, 2]], np.float32)).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("length", [1, 31, 33, 100, 5000])
def test_nan_spoils_its_row_alone(op_type, length):
    rng = fresh_rng()
    x = (3 * rng.standard_normal((5, length))).astype(np.float32)
    clean = run_cpu(op_type, x)
    assert_same(clean, run_ort(op_type, x, opset=21), rtol=1e-4, atol=1e-6)
    x[2, rng.integers(length)] = np.nan
    got = run_cpu(op_type, x)
    assert np.isnan(got[2]).all()
    assert_same(np.delete(got, 2, 0), np.delete(clean, 2, 0))


def test_strides_of_inputs_do_not_matter():
    x = fresh_rng().standard_normal((40, 6, 30)).astype(np.float32)
    for seen in (x.T, x[::3, :, ::-2]):
        assert_same(run_cpu("Softmax", seen), run_cpu("Softmax", np.ascontiguousarray(seen)))
