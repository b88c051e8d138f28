"""Activation functions of arrays, against formulas in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu import activations


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


# Function, parameters, formula, whether the result may replace x.
CASES = {
    "relu": ((), lambda x: np.maximum(x, 0), True),
    "sigmoid": ((), _sigmoid, True),
    "silu": ((1.7,), lambda x: x * _sigmoid(1.7 * x), False),
    "gelu": ((), lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)), False),
    "gelu_tanh": ((), lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))), False),
    "leaky_relu": ((0.3,), lambda x: np.where(x < 0, 0.3 * x, x), False),
    "elu": ((1.5, 2.0, 3.0), lambda x: 2 * np.where(x > 0, x, 1.5 * np.expm1(x / 3)), False),
    "hard_sigmoid": ((0.4, 0.6), lambda x: np.clip(0.4 * x + 0.6, 0, 1), True),
    "hard_swish": ((), lambda x: x * np.clip(x / 6 + 0.5, 0, 1), False),
    "softplus": ((), lambda x: np.log1p(np.exp(x)), True),
    "softsign": ((), lambda x: x / (1 + np.abs(x)), False),
    "mish": ((), lambda x: x * np.tanh(np.log1p(np.exp(x))), False),
    "thresholded_relu": ((0.7,), lambda x: np.where(x > 0.7, x, 0), True),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 5, 20_000])
@pytest.mark.parametrize("name", CASES)
def test_new_arrays_and_given_ones_get_the_same(name, size, dtype):
    parameters, formula, in_place = CASES[name]
    x = (fresh_rng().standard_normal(size) * 3).astype(dtype)
    wanted = formula(x.astype(np.float64)) if size else np.empty(0)
    function, given = getattr(activations, name), np.full_like(x, 7)
    y = function(x, *parameters)
    assert y.dtype == dtype
    tolerance = 2e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)
    assert function(x, *parameters, out=given) is given
    np.testing.assert_array_equal(given, y)
    if in_place:
        function(x, *parameters, out=x)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"thresholded_relu"}))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_stays_nan(name, dtype):
    y = getattr(activations, name)(np.array([np.nan, 1], dtype), *CASES[name][0])
    assert np.isnan(y).tolist() == [True, False]


def test_far_values_are_limits_and_nothing_warns():
    x = np.array([-1e4, 1e4])
    np.testing.assert_array_equal(activations.sigmoid(x), [0, 1])
    np.testing.assert_array_equal(activations.silu(x), [0, 1e4])


def test_a_gate_with_a_limit_cuts_both_sides():
    gate, up = np.float64([-9, 0.5, 9]), np.float64([-9, 0.5, 9])
    wanted = (
        np.float64([-9, 0.5, 2]) * _sigmoid(1.5 * np.float64([-9, 0.5, 2])) * (np.float64([-2, 0.5, 2]) + 1)
    )
    np.testing.assert_allclose(
        activations.swiglu(gate, up, alpha=1.5, beta=1.0, limit=2.0), wanted, rtol=1e-12
    )
