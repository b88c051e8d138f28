"""Activation functions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference

PLAIN = ["Relu", "Sigmoid", "Softplus", "Softsign", "Mish", "HardSwish", "Gelu"]
WITH_ATTRIBUTES = [
    ("LeakyRelu", {"alpha": 0.3}),
    ("Elu", {"alpha": 1.7}),
    ("Celu", {"alpha": 0.6}),
    ("Selu", {}),
    ("Selu", {"alpha": 1.2, "gamma": 2.0}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("ThresholdedRelu", {"alpha": 0.7}),
    ("Shrink", {"lambd": 0.6, "bias": 0.2}),
    ("Gelu", {"approximate": "tanh"}),
]


@pytest.mark.parametrize(("op_type", "attributes"), [*((name, {}) for name in PLAIN), *WITH_ATTRIBUTES])
@pytest.mark.parametrize("shape", [(), (0, 2), (5, 11)])
def test_activations_give_what_onnx_runtime_gives(op_type, attributes, shape):
    x = np.asarray(3 * fresh_rng().standard_normal(shape), np.float32)
    assert_same(
        run_cpu(op_type, x, opset=20, **attributes), run_ort(op_type, x, opset=20, **attributes), atol=2e-6
    )


@pytest.mark.parametrize(("op_type", "attributes"), [*((name, {}) for name in PLAIN), *WITH_ATTRIBUTES])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_types_give_the_rounded_float64_result(op_type, attributes, dtype):
    x = (3 * fresh_rng().standard_normal((3, 7))).astype(dtype)
    exact = run_cpu(op_type, x.astype(np.float64), **attributes)
    got = run_cpu(op_type, x, **attributes)
    assert_same(got, exact.astype(dtype), rtol=float(ml_dtypes.finfo(dtype).eps), atol=2e-6)


def test_swish_and_swiglu():
    rng = fresh_rng()
    gate, value = rng.standard_normal((2, 3, 4))
    swish = gate / (1 + np.exp(-1.5 * gate))
    assert_same(run_cpu("Swish", gate, alpha=1.5), swish)
    assert_same(run_cpu("SwiGLU", gate, value, alpha=1.5), swish * value)


@pytest.mark.parametrize("op_type", PLAIN)
def test_far_values_do_not_overflow(op_type):
    x = np.array([-1e4, 1e4, np.nan], np.float32)
    limits = {"Sigmoid": [0, 1], "Softsign": [-1, 1]}.get(op_type, [0, 1e4])
    assert_same(run_cpu(op_type, x), np.array([*limits, np.nan], np.float32), rtol=1e-3, atol=1e-6)


def test_first_selu_had_shorter_constants():
    x = np.array([-1.0, 2.0], np.float32)
    assert_same(
        run_cpu("Selu", x, opset=1), np.array([1.0507 * 1.6732 * np.expm1(-1), 2 * 1.0507], np.float32)
    )
    assert not np.array_equal(run_cpu("Selu", x, opset=1), run_cpu("Selu", x, opset=6))


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 1), (1,), ()])
def test_prelu_slopes_broadcast(shape):
    rng = fresh_rng()
    x, slope = rng.standard_normal((2, 3, 4, 5)), np.asarray(rng.random(shape))
    assert_same(run_cpu("PRelu", x, slope), np.where(x < 0, slope * x, x))


def test_prelu_before_opset_7_has_slopes_of_channels():
    rng = fresh_rng()
    x, slopes = rng.standard_normal((2, 3, 4)).astype(np.float32), np.array([0.1, 0.2, 0.3], np.float32)
    assert_same(run_cpu("PRelu", x, slopes, opset=6), np.where(x < 0, slopes[:, None] * x, x))
    assert_same(run_cpu("PRelu", x, slopes[:1], opset=6), np.where(x < 0, slopes[0] * x, x))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint8, np.float16])
@pytest.mark.parametrize("limits", [(), (2,), (None, 5), (2, 5), (5, 2)])
def test_clip_has_optional_limits(dtype, limits):
    x = np.arange(9).reshape(3, 3).astype(dtype)
    bounds = [None if limit is None else np.array(limit, dtype) for limit in limits]
    expected = x if not limits or limits[0] is None else np.maximum(x, limits[0])
    expected = np.minimum(expected, limits[1]) if len(limits) > 1 else expected
    assert_same(run_cpu("Clip", x, *bounds), expected.astype(dtype))


def test_clip_before_opset_11_has_attributes():
    x = np.array([-2.0, 0.5, 3.0, np.nan], np.float32)
    assert_same(run_cpu("Clip", x, opset=6, min=-1.0, max=1.0), np.array([-1, 0.5, 1, np.nan], np.float32))
    assert_same(run_cpu("Clip", x, opset=1, max=1.0), np.array([-2, 0.5, 1, np.nan], np.float32))
    assert_same(run_cpu("Clip", x, opset=6), x)


def test_shrink_of_integers():
    x = np.array([-3, -1, 0, 1, 3], np.int32)
    assert_same(run_cpu("Shrink", x, lambd=1.5, bias=1.0), np.array([-2, 0, 0, 0, 2], np.int32))
    assert_same(
        run_cpu("Shrink", x, lambd=1.5, bias=1.0),
        run_reference("Shrink", x, lambd=1.5, bias=1.0),
        types=False,
    )
