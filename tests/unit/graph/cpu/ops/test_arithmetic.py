"""Add, Sub, Mul, Div, Mod, Pow, Max, Min, Sum, Mean."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort
from onnxgen.errors import KernelError

BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


@pytest.mark.parametrize("op_type", [*BINARY, "Div"])
@pytest.mark.parametrize(
    ("left", "right"), [((), ()), ((3, 5), (5,)), ((7, 1), (1, 3)), ((0, 4), (4,)), ((2, 1, 3), (4, 1))]
)
def test_binary_operators_broadcast_as_onnx_runtime_does(op_type, left, right):
    rng = fresh_rng()
    a = rng.standard_normal(left).astype(np.float32)
    b = np.asarray(rng.standard_normal(right), np.float32)
    a = np.asarray(a, np.float32)
    assert_same(run_cpu(op_type, a, b, opset=14), run_ort(op_type, a, b, opset=14))


def test_inputs_may_be_strided():
    rng = fresh_rng()
    a, b = rng.standard_normal((7, 5)).T, rng.standard_normal((10, 14))[::2, ::2]
    assert_same(run_cpu("Add", a, b), a + b)


@pytest.mark.parametrize("op_type", BINARY)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_integers_wrap(op_type, dtype):
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, 3], dtype)
    b = np.array([2, info.max, 5], dtype)
    exact = [getattr(int(x), f"__{op_type.lower()}__")(int(y)) for x, y in zip(a, b, strict=True)]
    bits = 8 * a.itemsize
    wrapped = [(v - info.min) % (1 << bits) + info.min for v in exact]
    assert run_cpu(op_type, a, b).tolist() == wrapped


def test_integer_division_rounds_towards_zero():
    a = np.array([7, -7, 7, -7, 6, -6, 0], np.int32)
    b = np.array([2, 2, -2, -2, 3, 3, -5], np.int32)
    quotient = run_cpu("Div", a, b)
    assert quotient.tolist() == [3, -3, -3, 3, 2, -2, 0]
    assert_same(quotient, run_ort("Div", a, b, opset=14))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_division_by_zero_and_of_the_least_integer_do_not_crash(dtype):
    info = np.iinfo(dtype)
    a, b = np.array([5, info.min, 0], dtype), np.array([0, -1 if info.min else 1, 0], dtype)
    assert run_cpu("Div", a, b).tolist() == [0, info.min, 0]
    assert run_cpu("Mod", a, b).tolist() == [0, 0, 0]


def test_division_of_floats_gives_infinity_and_nan():
    a, b = np.array([1, -1, 0], np.float32), np.zeros(3, np.float32)
    assert_same(run_cpu("Div", a, b), np.array([np.inf, -np.inf, np.nan], np.float32))


def test_before_opset_7_an_axis_says_where_the_second_shape_begins():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    middle, first = np.array([10, 20, 30], np.float32), np.array([100, 200], np.float32)
    assert_same(run_cpu("Add", a, middle, opset=6, broadcast=1, axis=1), a + middle[:, None])
    assert_same(run_cpu("Sub", a, first, opset=6, broadcast=1, axis=0), a - first[:, None, None])
    assert_same(run_cpu("Mul", a, a[0], opset=1, broadcast=1), a * a[0])
    assert_same(run_cpu("Pow", a, np.array(2, np.float32), opset=1, broadcast=1), a**2)


def test_before_opset_7_shapes_that_do_not_fit_are_told():
    a, b = np.ones((2, 3), np.float32), np.ones((3,), np.float32)
    with pytest.raises(KernelError, match="needs broadcast=1"):
        run_cpu("Add", a, b, opset=6)
    with pytest.raises(KernelError, match="no part of"):
        run_cpu("Add", a, b, opset=6, broadcast=1, axis=0)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float32])
@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_takes_the_sign_of_one_side(dtype, fmod):
    if np.issubdtype(dtype, np.floating) and not fmod:
        pytest.skip("onnxruntime has no floating-point Mod without fmod")
    rng = fresh_rng()
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -20
    a = rng.integers(low, 20, (5, 7)).astype(dtype)
    b = rng.integers(1, 9, 7).astype(dtype) * (1 if low == 0 else -1)
    assert_same(run_cpu("Mod", a, b, opset=13, fmod=fmod), run_ort("Mod", a, b, opset=13, fmod=fmod))


def test_mod_of_floats_follows_the_table_of_opset_28():
    x = np.array([-4.3, 7.2, np.inf, 1.0, 3.0, -3.0], np.float32)
    y = np.array([2.1, -3.4, 2.0, 0.0, np.inf, np.inf], np.float32)
    assert_same(run_cpu("Mod", x, y), np.array([2.0, -3.0, np.nan, np.nan, 3.0, np.inf], np.float32))


@pytest.mark.parametrize("base", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [np.float32, np.float64, np.int32, np.int64])
def test_pow_mixes_types(base, exponent):
    rng = fresh_rng()
    x, y = rng.integers(1, 6, (3, 4)).astype(base), rng.integers(0, 5, 4).astype(exponent)
    assert_same(run_cpu("Pow", x, y, opset=15), run_ort("Pow", x, y, opset=15))


def test_pow_of_integers_with_negative_exponents_cuts_off():
    x, y = np.array([2, 1, -1, -1], np.int64), np.array([-1, -3, -3, -2], np.int64)
    assert run_cpu("Pow", x, y).tolist() == [0, 1, -1, 1]


def test_pow_of_bfloat16_is_computed_in_float32():
    x = np.array([1.5, 2.25, 3.0], ml_dtypes.bfloat16)
    assert_same(run_cpu("Pow", x, np.array([2, 3, 4], np.int64)), np.array([2.25, 11.375, 81.0], x.dtype))


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_any_number_of_inputs_broadcasts(op_type, count):
    rng = fresh_rng()
    shapes = [(3, 1), (1, 5), (5,), (), (3, 5)][:count]
    inputs = [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]
    assert_same(run_cpu(op_type, *inputs, opset=13), run_ort(op_type, *inputs, opset=13))


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_extremes_keep_nan(op_type):
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([0, np.nan, 3], np.float32)
    assert np.isnan(run_cpu(op_type, a, b)).tolist() == [True, True, False]


def test_sums_of_halves_round_once():
    ones, tiny = np.ones(3, np.float16), np.full(3, 2**-11, np.float16)
    assert_same(run_cpu("Sum", ones, tiny, tiny, tiny, tiny), np.full(3, 1 + 2**-9, np.float16), rtol=0)


def test_old_versions_of_variadic_operators_take_equal_shapes():
    rng = fresh_rng()
    inputs = [rng.standard_normal((2, 3)).astype(np.float32) for _ in range(3)]
    for opset in (1, 6):
        assert_same(run_cpu("Max", *inputs, opset=opset), np.maximum.reduce(inputs))
        assert_same(run_cpu("Mean", *inputs, opset=opset), np.mean(inputs, axis=0, dtype=np.float32))
