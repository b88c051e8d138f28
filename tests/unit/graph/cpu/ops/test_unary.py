"""Functions of one tensor, element by element."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

FLOATS = [
    *["Abs", "Ceil", "Floor", "Neg", "Exp", "Log", "Sqrt", "Reciprocal", "Tanh", "Round", "Sign", "Erf"],
    *["Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"],
]


@pytest.mark.parametrize("op_type", FLOATS)
@pytest.mark.parametrize("shape", [(), (0, 3), (7, 13)])
def test_functions_give_what_onnx_runtime_gives(op_type, shape):
    rng = fresh_rng()
    x = np.asarray(3 * rng.standard_normal(shape), np.float32)
    if op_type in ("Log", "Sqrt", "Acosh"):
        x = np.asarray(np.abs(x) + np.float32(1))
    if op_type in ("Asin", "Acos", "Atanh"):
        x = np.asarray(np.tanh(x) * np.float32(0.99))
    assert_same(run_cpu(op_type, x, opset=17), run_ort(op_type, x, opset=17), atol=2e-6)


@pytest.mark.parametrize("op_type", ["Exp", "Log", "Tanh", "Erf", "Sqrt", "Sin"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_are_computed_in_float32_and_rounded_once(op_type, dtype):
    rng = fresh_rng()
    x = np.abs(rng.standard_normal((5, 9))).astype(dtype)
    wide = run_cpu(op_type, x.astype(np.float32))
    assert_same(run_cpu(op_type, x), wide.astype(dtype), rtol=2**-7 if dtype != np.float16 else 2**-10)


def test_erf_is_exact_to_the_last_bits():
    x = fresh_rng().uniform(-6, 6, 2000)
    exact = np.array([math.erf(value) for value in x])
    assert np.abs(run_cpu("Erf", x) - exact).max() < 1e-15
    narrow = x.astype(np.float32)
    exact = np.array([math.erf(value) for value in narrow.astype(np.float64)])
    assert np.abs(run_cpu("Erf", narrow) - exact).max() < 1e-7


def test_round_takes_halves_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, np.inf], np.float64)
    assert_same(run_cpu("Round", x), np.array([0, 2, 2, -0.0, -2, 2, np.inf]))


def test_special_values_pass_through():
    x = np.array([np.nan, np.inf, -np.inf, 0, -1], np.float32)
    assert_same(run_cpu("Log", x), np.array([np.nan, np.inf, np.nan, -np.inf, np.nan], np.float32))
    assert_same(run_cpu("Reciprocal", x), np.array([np.nan, 0, -0.0, np.inf, -1], np.float32))
    assert_same(run_cpu("Exp", x), np.array([np.nan, np.inf, 0, 1, np.exp(-1)], np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integers_keep_their_type(dtype):
    x = np.array([0, 1, 100], dtype)
    assert_same(run_cpu("Sign", x), np.array([0, 1, 1], dtype))
    assert_same(run_cpu("Abs", x), x)
    assert_same(run_cpu("BitwiseNot", x), ~x)


def test_not_turns_truth():
    assert run_cpu("Not", np.array([[True, False]])).tolist() == [[False, True]]


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.float8_e5m2]
)
def test_infinities_are_found_by_sign(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 1], np.float32).astype(dtype)
    assert run_cpu("IsInf", x).tolist() == [True, True, False, False]
    assert run_cpu("IsInf", x, detect_negative=0).tolist() == [True, False, False, False]
    assert run_cpu("IsInf", x, detect_positive=0).tolist() == [False, True, False, False]
    assert run_cpu("IsInf", x, detect_positive=0, detect_negative=0).tolist() == [False] * 4
    assert run_cpu("IsNaN", x).tolist() == [False, False, True, False]
