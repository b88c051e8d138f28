"""Products of quantized matrices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort


def _integers(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


def _int64(x, zero):
    return x.astype(np.int64) - zero.astype(np.int64)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "shapes", [((3, 700), (700, 4)), ((2, 3, 5), (2, 5, 4)), ((5,), (5, 3)), ((2, 2, 5), (5,))]
)
@pytest.mark.parametrize("constants", [(), (1, 3)])
def test_integer_products_are_exact(left, right, shapes, constants):
    rng = fresh_rng()
    a, b = _integers(rng, left, *shapes[0]), _integers(rng, right, *shapes[1])
    zeros = _integers(rng, left), _integers(rng, right)
    got = run_cpu("MatMulInteger", a, b, *zeros, constants=constants)
    assert_same(got, (_int64(a, zeros[0]) @ _int64(b, zeros[1])).astype(np.int32))


def test_zero_points_by_row_and_by_column():
    rng = fresh_rng()
    a, b = _integers(rng, np.uint8, 3, 9), _integers(rng, np.int8, 9, 4)
    rows, columns = _integers(rng, np.uint8, 3), _integers(rng, np.int8, 4)
    got = run_cpu("MatMulInteger", a, b, rows, columns)
    assert_same(got, (_int64(a, rows[:, None]) @ _int64(b, columns)).astype(np.int32))


def test_sixteen_bits():
    rng = fresh_rng()
    a, b = _integers(rng, np.int16, 3, 9) // 64, _integers(rng, np.int16, 9, 4) // 64
    got = run_cpu("MatMulInteger16", a, b, domain="com.microsoft")
    assert_same(got, (a.astype(np.int32) @ b.astype(np.int32)))


@pytest.mark.parametrize("columns", [False, True])
def test_requantized_products(columns):
    rng = fresh_rng()
    a, b = _integers(rng, np.uint8, 5, 30), _integers(rng, np.int8, 30, 4)
    b_scale = np.asarray(rng.random(4 if columns else ()) * 0.1, np.float32)
    b_zero = _integers(rng, np.int8, *b_scale.shape)
    args = (a, np.array(0.02, np.float32), np.array(120, np.uint8), b, b_scale, b_zero, np.array(2, np.float32), np.array(9, np.uint8))  # fmt: skip
    got, want = run_cpu("QLinearMatMul", *args), run_ort("QLinearMatMul", *args, opset=10)
    assert got.dtype == want.dtype and np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_products_of_float8_are_summed_in_float32():
    a = np.full((1, 300), 1, ml_dtypes.float8_e4m3fn)
    one, zero = np.array(1, np.float16), np.array(0, a.dtype)
    got = run_cpu("QLinearMatMul", a, one, zero, a.T, one, zero, one, zero)
    assert got.astype(np.float32).tolist() == [[288]]  # the nearest float8 to 300


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_float_results(columns, biased):
    rng = fresh_rng()
    b = _integers(rng, np.int8, 30, 4)
    b_scale = np.asarray(rng.random(4 if columns else ()) * 0.1, np.float32)
    b_zero = _integers(rng, np.int8, *b_scale.shape)
    bias = [rng.standard_normal(4).astype(np.float32)] if biased else []
    a = _integers(rng, np.uint8, 5, 30)
    args = (a, b, np.array(0.02, np.float32), b_scale, np.array(120, np.uint8), b_zero, *bias)
    options = {"domain": "com.microsoft"}
    got = run_cpu("MatMulIntegerToFloat", *args, **options)
    assert_same(got, run_ort("MatMulIntegerToFloat", *args, **options), rtol=1e-4, atol=1e-4)
    x = rng.standard_normal((2, 5, 30)).astype(np.float32)
    got = run_cpu("DynamicQuantizeMatMul", x, b, b_scale, b_zero, *bias, constants=(1, 3), **options)
    assert_same(
        got, run_ort("DynamicQuantizeMatMul", x, b, b_scale, b_zero, *bias, **options), rtol=1e-3, atol=1e-3
    )


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


def _scalar(value, dtype=np.float32):
    return np.array(value, dtype)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_gemm(transposed, quantized, columns):
    rng = fresh_rng()
    a, b = _bytes(rng, np.uint8, 5, 20), _bytes(rng, np.int8, 20, 4)
    b_scale = np.asarray(rng.random(4 if columns else ()) * 0.1, np.float32)
    args = [a.T.copy() if transposed[0] else a, _scalar(0.02), _scalar(120, np.uint8)]
    args += [b.T.copy() if transposed[1] else b, b_scale, _bytes(rng, np.int8, *b_scale.shape)]
    args += [rng.integers(-900, 900, 4).astype(np.int32)]
    args += [_scalar(0.5), _scalar(7, np.uint8)] if quantized else []
    options = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.7, "domain": "com.microsoft"}
    got, want = run_cpu("QGemm", *args, **options), run_ort("QGemm", *args, **options)
    assert_same(got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1 if quantized else 1e-4)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("c_shape", [None, (), (4,), (1, 4), (5, 4), (5, 1)])
@pytest.mark.parametrize("requantized", [False, True])
def test_gemm_of_bytes(trans, c_shape, requantized):
    rng = fresh_rng()
    a = _integers(rng, np.uint8, *((30, 5) if trans[0] else (5, 30)))
    b = _integers(rng, np.int8, *((4, 30) if trans[1] else (30, 4)))
    c = None if c_shape is None else np.asarray(rng.integers(-99, 99, c_shape), np.int32)
    scale, zero = np.array(0.02, np.float32), np.array(120, np.uint8)
    b_scale = rng.random(4).astype(np.float32) * 0.1
    args = (a, scale, zero, b, b_scale, np.zeros(4, np.int8), c)
    args += (np.array(0.5, np.float32), np.array(9, np.uint8)) if requantized else ()
    options = {"domain": "com.microsoft", "alpha": 0.5, "transA": trans[0], "transB": trans[1]}
    sums = _int64(a.T if trans[0] else a, zero) @ (b.T if trans[1] else b).astype(np.int64)
    want = 0.5 * 0.02 * (sums + (0 if c is None else c)) * b_scale.astype(np.float64)
    for constants in ((), (1, 2, 3, 4, 5)):
        got = run_cpu("QGemm", *args, constants=constants, **options)
        if requantized:
            assert np.abs(got - np.clip(want / 0.5 + 9, 0, 255)).max() <= 0.501
        else:
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_dynamically_quantized_products(rows):
    rng = fresh_rng()
    a, b = rng.standard_normal((2, rows, 37)).astype(np.float32), _integers(rng, np.uint8, 37, 70)
    args = (a, b, rng.random(70).astype(np.float32), _integers(rng, np.uint8, 70), rng.standard_normal(70).astype(np.float32))  # fmt: skip
    options = {"domain": "com.microsoft", "constants": (1, 2, 3, 4)}
    got = run_cpu("DynamicQuantizeMatMul", *args, **options)
    assert_same(got, run_ort("DynamicQuantizeMatMul", *args, **options), rtol=1e-4, atol=1e-2)
