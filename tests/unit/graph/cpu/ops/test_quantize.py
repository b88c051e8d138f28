"""Quantization of every type and granularity."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference

INTEGERS = [
    np.uint8,
    np.int8,
    np.uint16,
    np.int16,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.int2,
    ml_dtypes.uint2,
]
FLOAT8 = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
]


def _parameters(rng, shape, axis, granularity, dtype, kind):
    sizes, options = (), {"axis": axis}
    if granularity == "axis":
        sizes = (shape[axis],)
    elif granularity == "block":
        sizes = tuple(-(-n // 2) if i == axis % len(shape) else n for i, n in enumerate(shape))
        options["block_size"] = 2
    scale = (rng.random(sizes) * 3 + 0.01).astype(kind)
    return scale, rng.integers(0, 2, sizes).astype(dtype), options


@pytest.mark.parametrize("dtype", INTEGERS + FLOAT8)
@pytest.mark.parametrize("granularity", ["tensor", "axis", "block"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_quantizing_and_back(dtype, granularity, kind):
    rng = fresh_rng()
    shape, axis = (3, 5, 4), int(rng.integers(-3, 3))
    scale, zero, options = _parameters(rng, shape, axis, granularity, dtype, kind)
    if dtype in FLOAT8:
        zero = np.zeros_like(zero)
    x = (rng.standard_normal(shape) * 20).astype(kind)
    y = run_cpu("QuantizeLinear", x, scale, zero, **options)
    assert_same(y, run_reference("QuantizeLinear", x, scale, zero, opset=25, **options))
    back = run_cpu("DequantizeLinear", y, scale, zero, **options)
    assert_same(back, run_reference("DequantizeLinear", y, scale, zero, opset=25, **options), rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_ties_go_to_even_as_in_onnx_runtime(dtype):
    x = np.arange(-40, 40, dtype=np.float32) / 4
    args = (x, np.array(0.5, np.float32), np.array(3, dtype))
    assert_same(run_cpu("QuantizeLinear", *args), run_ort("QuantizeLinear", *args, opset=21))


def test_values_out_of_range_saturate_without_a_warning():
    x = np.array([np.inf, -np.inf, 1e30, -1e30], np.float32)
    got = run_cpu("QuantizeLinear", x, np.array(1, np.float32), np.array(5, np.int8))
    assert got.tolist() == [127, -128, 127, -128]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_saturates_only_when_asked(dtype):
    x, scale, zero = np.array([1e6, -1e6, np.nan], np.float32), np.array(1, np.float32), np.zeros((), dtype)
    largest = float(ml_dtypes.finfo(dtype).max)
    bound = run_cpu("QuantizeLinear", x, scale, zero).astype(np.float32)
    assert bound[:2].tolist() == [largest, -largest] and np.isnan(bound[2])
    assert not np.isfinite(run_cpu("QuantizeLinear", x, scale, zero, saturate=0).astype(np.float32)).any()


def test_the_output_type_comes_from_the_zero_point_the_attribute_or_is_uint8():
    x, scale = np.array([1, 2], np.float32), np.array(1, np.float32)
    assert run_cpu("QuantizeLinear", x, scale).dtype == np.uint8
    assert run_cpu("QuantizeLinear", x, scale, output_dtype=5).dtype == np.int16
    assert run_cpu("QuantizeLinear", x, scale, output_dtype=23).dtype == ml_dtypes.float4_e2m1fn
    assert run_cpu("DequantizeLinear", np.ones(2, np.int8), scale, output_dtype=10).dtype == np.float16


def test_the_division_is_done_in_the_type_of_the_scale_or_as_asked():
    x, scale = np.array([2049], np.float32), np.array(2, np.float16)
    zero = np.array(0, np.uint16)
    assert run_cpu("QuantizeLinear", x, scale, zero).tolist() == [1024]  # 2049 is 2048 in float16
    assert run_cpu("QuantizeLinear", x + 1, scale, zero, precision=1).tolist() == [1025]


def test_int32_dequantizes_without_a_zero_point():
    got = run_cpu("DequantizeLinear", np.array([-7, 2**30], np.int32), np.array(0.5, np.float32))
    assert got.tolist() == [-3.5, 2**29]


@pytest.mark.parametrize("low", [-3.0, 0.0, 2.0])
def test_dynamic_parameters_span_the_range_and_zero(low):
    x = (fresh_rng().random((3, 4)) + low).astype(np.float32)
    assert_same(
        run_cpu("DynamicQuantizeLinear", x, outputs=3),
        run_ort("DynamicQuantizeLinear", x, opset=11, outputs=3),
    )


@pytest.mark.parametrize("shape", [(2, 2), (0, 3)])
def test_nothing_but_zeros_has_scale_one(shape):
    y, scale, zero = run_cpu("DynamicQuantizeLinear", np.zeros(shape, np.float32), outputs=3)
    assert y.tolist() == np.zeros(shape).tolist() and (float(scale), int(zero)) == (1, 0)


@pytest.mark.parametrize(
    "x", [[np.nan, 1, 2], [1, np.nan, -2], [np.nan] * 8, [np.inf, 1, 2], [-np.inf, 1, -2], [-np.inf, np.inf]]
)
def test_dynamic_parameters_of_what_is_not_finite(x):
    x = np.array(x, np.float32)
    expected = run_ort("DynamicQuantizeLinear", x, opset=11, outputs=3)
    assert_same(run_cpu("DynamicQuantizeLinear", x, outputs=3), expected)


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_the_contrib_forms_agree_with_the_standard(op_type):
    rng = fresh_rng()
    x = rng.integers(0, 255, (3, 4)).astype(np.uint8 if op_type == "DequantizeLinear" else np.float32)
    args = (x, rng.random(4).astype(np.float32) + 0.1, rng.integers(0, 255, 4).astype(np.uint8))
    got = run_cpu(op_type, *args, domain="com.microsoft", axis=1)
    assert_same(got, run_ort(op_type, *args, domain="com.microsoft", axis=1))
