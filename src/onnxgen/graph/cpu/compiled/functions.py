"""Functions of one float32 that loops over vectors can contain; NaN gives NaN.

``exp`` is a polynomial after taking out powers of two, right to 2e-7 of the value, and 0 where the result would not be
a normal number. ``tanh`` is a quotient of polynomials in the square, fitted to ``tanh(x) / x`` over [0, 81.4] by
reweighted least squares: 4e-7 of the value.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.
# ruff: noqa: FURB136
# Reason: min and max would not let NaN pass.

from __future__ import annotations

from typing import Any

import numpy as np

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
    y = z * p / q
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y
