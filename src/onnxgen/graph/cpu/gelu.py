"""Smooth gates: GELU and SiLU of float32 and float64 arrays."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.erf import erf
from onnxgen.graph.cpu.maps import mapped


def gelu(x: np.ndarray) -> np.ndarray:
    """``x * Phi(x)``, exactly."""
    if x.dtype == np.float32:
        return mapped("gelu", x)
    return np.asarray(x * (erf()(x * x.dtype.type(0.5**0.5)) + 1) * x.dtype.type(0.5))


def fast_gelu(x: np.ndarray) -> np.ndarray:
    """The approximation of `gelu` by tanh."""
    if x.dtype == np.float32:
        return mapped("gelu_tanh", x)
    inner = x * (x.dtype.type(0.7978845608028654) + x.dtype.type(0.035677408136300125) * x * x)
    return np.asarray(x * (np.tanh(inner) + 1) * x.dtype.type(0.5))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))``, without overflow."""
    if x.dtype == np.float32:
        return mapped("logistic", x)
    return np.asarray((np.tanh(x * x.dtype.type(0.5)) + 1) * x.dtype.type(0.5))


def silu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    """``x * sigmoid(alpha * x)``."""
    if x.dtype == np.float32:
        return mapped("swish", x, alpha=alpha)
    return np.asarray(x * sigmoid(x * x.dtype.type(alpha)))


def swiglu(gate: np.ndarray, up: np.ndarray, *, alpha: float, beta: float, limit: float | None) -> np.ndarray:
    """``silu(gate, alpha) * (up + beta)``; with a limit the gate is cut above, the other on both sides."""
    if limit is not None:
        gate, up = np.minimum(gate, gate.dtype.type(limit)), np.clip(up, -limit, limit)
    return silu(gate, alpha) * (up + up.dtype.type(beta))
