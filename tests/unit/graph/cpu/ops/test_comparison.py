"""Comparisons, logic, bits and selection."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort


@pytest.mark.parametrize("op_type", ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_comparisons_give_what_onnx_runtime_gives(op_type, dtype):
    rng = fresh_rng()
    a, b = rng.integers(0, 4, (5, 1, 3)).astype(dtype), rng.integers(0, 4, (7, 1)).astype(dtype)
    assert_same(run_cpu(op_type, a, b, opset=16), run_ort(op_type, a, b, opset=16))


def test_nan_compares_to_nothing():
    x = np.array([np.nan, 1], np.float32)
    assert run_cpu("Equal", x, x).tolist() == [False, True]
    assert run_cpu("LessOrEqual", x, x).tolist() == [False, True]


def test_strings_are_compared():
    a, b = np.array([["x"], ["yy"]], object), np.array(["x", "yy"], object)
    assert run_cpu("Equal", a, b).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic_broadcasts(op_type):
    rng = fresh_rng()
    a, b = rng.random((3, 4)) < 0.5, rng.random(4) < 0.5
    assert_same(run_cpu(op_type, a, b), run_ort(op_type, a, b, opset=7))
    rows = rng.random(3) < 0.5
    old = run_cpu(op_type, a, rows, opset=1, broadcast=1, axis=0)
    assert_same(old, run_cpu(op_type, a, rows[:, None]))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_beyond_the_width_leave_nothing(dtype, direction):
    width = 8 * np.dtype(dtype).itemsize
    x, amount = np.full(4, 129, dtype), np.array([0, 1, width - 1, width], dtype)
    exact = [129 << n if direction == "LEFT" else 129 >> n for n in amount.tolist()]
    assert run_cpu("BitShift", x, amount, direction=direction).tolist() == [v % (1 << width) for v in exact]


def test_signed_shifts_copy_the_sign():
    x, amount = np.array([-8, -8, 8, -8], np.int32), np.array([1, 40, 40, -1], np.int32)
    assert run_cpu("BitShift", x, amount, direction="RIGHT").tolist() == [-4, -1, 0, -1]
    assert run_cpu("BitShift", x, amount, direction="LEFT").tolist() == [-16, 0, 0, 0]


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits_are_combined(op_type):
    rng = fresh_rng()
    a, b = rng.integers(-100, 100, (4, 3)), rng.integers(-100, 100, 3)
    assert_same(run_cpu(op_type, a, b), run_ort(op_type, a, b, opset=18))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, object, np.complex64])
def test_where_selects_values_of_any_type(dtype):
    condition = np.array([[True], [False]])
    x, y = np.array([1, 0, 1]).astype(dtype), np.array([[0, 1, 0]]).astype(dtype)
    assert run_cpu("Where", condition, x, y).tolist() == [x.tolist(), y[0].tolist()]
