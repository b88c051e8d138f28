"""Functions of one float32 that loops over vectors can contain; NaN gives NaN.

``exp`` is a polynomial after taking out powers of two, right to 2e-7 of the value, and 0 where the result would not be
a normal number. ``tanh`` is a quotient of polynomials in the square, fitted to ``tanh(x) / x`` over [0, 81.4] by
reweighted least squares: 4e-7 of the value. ``erf`` is the quotient of `onnxgen.graph.cpu.erf`, in float32.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.
# ruff: noqa: FURB136
# Reason: min and max would not let NaN pass.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu import erf as wide
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.primitives import power_of_two

_F = np.float32
_LOWEST, _HIGHEST = _F(-87.33654), _F(88.0)
_LOG2_E, _LN2_HIGH, _LN2_LOW = _F(1.44269504), _F(0.693359375), _F(-2.12194440e-4)
_E2, _E3, _E4, _E5, _E6 = (_F(1 / n) for n in (2, 6, 24, 120, 720))

_FLAT = _F(9.02)
_P0, _P1, _P2 = _F(0.99999998), _F(0.13379727263418778), _F(0.0034940455194223895)
_P3, _P4 = _F(2.058365726361102e-05), _F(1.3319307805322084e-08)
_Q1, _Q2 = _F(0.4671304251224826), _F(0.02587111518307064)
_Q3, _Q4 = _F(0.0003283110673574557), _F(7.762117664246913e-07)
_ONE, _HALF = _F(1), _F(0.5)

_CERTAIN = _F(3.92)
_N0, _N1, _N2, _N3, _N4, _N5 = (_F(p) for p in (wide.P0, wide.P1, wide.P2, wide.P3, wide.P4, wide.P5))
_D1, _D2, _D3, _D4, _D5, _D6 = (_F(q) for q in (wide.Q1, wide.Q2, wide.Q3, wide.Q4, wide.Q5, wide.Q6))

_ROOT_HALF, _ROOT_2_PI, _CUBIC = _F(0.5**0.5), _F(0.7978845608028654), _F(0.044715)


@inline
def exp(x: Any) -> Any:
    """``e ** x``; at most ``e ** 88``."""
    z = _LOWEST if x < _LOWEST else x
    z = min(z, _HIGHEST) if z == z else z  # noqa: PLR0124
    n = np.floor(z * _LOG2_E + _HALF)
    r = z - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_E6 * r + _E5) * r + _E4) * r + _E3) * r + _E2) * r * r + r + _ONE
    y = p * power_of_two(n)
    return _F(0) if x < _LOWEST else y


@inline
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return _ONE / (_ONE + exp(-x))


@inline
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    z = _FLAT if x > _FLAT else x
    z = -_FLAT if z < -_FLAT else z
    t = z * z
    p = (((_P4 * t + _P3) * t + _P2) * t + _P1) * t + _P0
    q = (((_Q4 * t + _Q3) * t + _Q2) * t + _Q1) * t + _ONE
    return saturated(x, z * p / q, _FLAT)


@inline
def saturated(x: Any, y: Any, far: Any) -> Any:
    """``y`` within -1 and 1, and exactly these for ``x`` far from 0."""
    y = _ONE if y > _ONE or x > far else y
    return -_ONE if y < -_ONE or x < -far else y


@inline
def erf(x: Any) -> Any:
    """The error function."""
    z = _CERTAIN if x > _CERTAIN else x
    z = -_CERTAIN if z < -_CERTAIN else z
    t = z * z
    p = ((((_N5 * t + _N4) * t + _N3) * t + _N2) * t + _N1) * t + _N0
    q = (((((_D6 * t + _D5) * t + _D4) * t + _D3) * t + _D2) * t + _D1) * t + _ONE
    return saturated(x, z * p / q, _CERTAIN)


@inline
def gelu(x: Any, _alpha: Any, _beta: Any) -> Any:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    return _HALF * x * (_ONE + erf(x * _ROOT_HALF))


@inline
def gelu_tanh(x: Any, _alpha: Any, _beta: Any) -> Any:
    """The approximation of `gelu` by tanh."""
    return _HALF * x * (_ONE + tanh(_ROOT_2_PI * (x + _CUBIC * x * x * x)))


@inline
def logistic(x: Any, _alpha: Any, _beta: Any) -> Any:
    """`sigmoid`."""
    return sigmoid(x)


@inline
def swish(x: Any, alpha: Any, _beta: Any) -> Any:
    """``x * sigmoid(alpha * x)``."""
    return x * sigmoid(alpha * x)


@inline
def relu(x: Any, _alpha: Any, _beta: Any) -> Any:
    """``max(x, 0)``."""
    return _F(0) if x < _F(0) else x


@inline
def leaky_relu(x: Any, alpha: Any, _beta: Any) -> Any:
    """``x``, times ``alpha`` below 0."""
    return x * alpha if x < _F(0) else x


@inline
def between(x: Any, alpha: Any, beta: Any) -> Any:
    """``x`` between two limits; the upper one wins where they cross."""
    y = alpha if x < alpha else x
    return beta if y > beta else y


@inline
def hard_sigmoid(x: Any, alpha: Any, beta: Any) -> Any:
    """``alpha * x + beta`` between 0 and 1."""
    return between(alpha * x + beta, _F(0), _ONE)


@inline
def hard_swish(x: Any, alpha: Any, beta: Any) -> Any:
    """``x * hard_sigmoid(x)``."""
    return x * hard_sigmoid(x, alpha, beta)
