"""Activation functions of arrays, each written here once.

All take the array ``x`` of float32, float64 or wider, then their parameters, and ``out``: where the result goes, of the shape and
type of ``x`` and C-contiguous, or None for a new array. ``out`` must not be ``x`` unless it says so. NaN stays NaN.
"""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.erf import erf
from onnxgen.graph.cpu.maps import mapped

_LONG = 16384
"""Elements from which on a compiled loop of several threads beats NumPy at what it does in one instruction."""


def relu(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``max(x, 0)``; ``out`` may be ``x``."""
    if x.dtype == np.float32 and x.size > _LONG:
        return mapped("relu", x, out)
    return np.maximum(x, x.dtype.type(0), out=out)


def sigmoid(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``1 / (1 + exp(-x))``; ``out`` may be ``x``."""
    if x.dtype == np.float32:
        return mapped("logistic", x, out)
    with np.errstate(over="ignore"):
        y = np.exp(np.negative(x, out=out), out=out)
    y = np.add(y, 1, out=out)
    return np.reciprocal(y, out=out)


def silu(x: np.ndarray, alpha: float = 1.0, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x * sigmoid(alpha * x)``: SiLU, or Swish with its parameter."""
    if x.dtype == np.float32:
        return mapped("swish", x, out, alpha=alpha)
    gate = sigmoid(np.multiply(x, x.dtype.type(alpha), out=out), out=out)
    return np.multiply(gate, x, out=out)


def swiglu(gate: np.ndarray, up: np.ndarray, *, alpha: float, beta: float, limit: float | None) -> np.ndarray:
    """``silu(gate, alpha) * (up + beta)``; with a limit the gate is cut above, the other on both sides."""
    if limit is not None:
        gate, up = np.minimum(gate, gate.dtype.type(limit)), np.clip(up, -limit, limit)
    return silu(gate, alpha) * (up + up.dtype.type(beta))


def gelu(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    if x.dtype == np.float32:
        return mapped("gelu", x, out)
    y = np.asarray(erf()(np.multiply(x, x.dtype.type(0.5**0.5), out=out), out))
    return _half_of_product(x, np.add(y, 1, out=out), out)


def gelu_tanh(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """The approximation ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``."""
    if x.dtype == np.float32:
        return mapped("gelu_tanh", x, out)
    y = np.multiply(np.multiply(x, x, out=out), x.dtype.type(0.044715), out=out)
    y = np.multiply(np.add(y, 1, out=out), x, out=out)
    y = np.tanh(np.multiply(y, x.dtype.type((2 / np.pi) ** 0.5), out=out), out=out)
    return _half_of_product(x, np.add(y, 1, out=out), out)


def _half_of_product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    return np.multiply(np.multiply(y, x, out=out), x.dtype.type(0.5), out=out)


def leaky_relu(x: np.ndarray, slope: float | np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x`` where ``x >= 0``, else ``slope * x``; slopes broadcast to ``x``."""
    if np.ndim(slope) == 0:
        if x.dtype == np.float32:
            return mapped("leaky_relu", x, out, alpha=float(slope))
        if 0 <= slope <= 1:
            return np.maximum(np.multiply(x, x.dtype.type(slope), out=out), x, out=out)
    y = np.multiply(np.minimum(x, 0, out=out), slope, out=out)
    return np.add(y, np.maximum(x, 0), out=out)


def elu(
    x: np.ndarray, alpha: float, gamma: float = 1.0, rate: float = 1.0, *, out: np.ndarray | None = None
) -> np.ndarray:
    """``gamma * x`` where ``x > 0``, else ``gamma * alpha * (exp(x / rate) - 1)``."""
    y = np.minimum(x, 0, out=out)
    if rate != 1.0:
        y = np.divide(y, x.dtype.type(rate), out=out)
    y = np.multiply(np.expm1(y, out=out), x.dtype.type(alpha * gamma), out=out)
    positive = np.maximum(x, 0)
    return np.add(y, positive if gamma == 1.0 else positive * x.dtype.type(gamma), out=out)


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float, *, out: np.ndarray | None = None) -> np.ndarray:
    """``alpha * x + beta`` between 0 and 1; ``out`` may be ``x``."""
    if x.dtype == np.float32:
        return mapped("hard_sigmoid", x, out, alpha=alpha, beta=beta)
    y = np.add(np.multiply(x, x.dtype.type(alpha), out=out), x.dtype.type(beta), out=out)
    return np.clip(y, 0, 1, out=out)


def hard_swish(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x * hard_sigmoid(x)`` with slope 1/6."""
    if x.dtype == np.float32:
        return mapped("hard_swish", x, out, alpha=1 / 6, beta=0.5)
    return np.multiply(hard_sigmoid(x, 1 / 6, 0.5, out=out), x, out=out)


def softplus(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``log(1 + exp(x))`` without overflow; ``out`` may be ``x``."""
    with np.errstate(invalid="ignore"):  # NaN
        return np.logaddexp(x, x.dtype.type(0), out=out)


def softsign(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x / (1 + |x|)``."""
    return np.divide(x, np.add(np.absolute(x, out=out), 1, out=out), out=out)


def mish(x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x * tanh(softplus(x))``."""
    return np.multiply(np.tanh(softplus(x, out=out), out=out), x, out=out)


def thresholded_relu(x: np.ndarray, alpha: float, *, out: np.ndarray | None = None) -> np.ndarray:
    """``x`` where it is above ``alpha``, else 0, also for NaN; ``out`` may be ``x``."""
    below = ~(x > alpha)
    y = np.empty_like(x) if out is None else out
    np.copyto(y, x)
    y[below] = 0
    return y
