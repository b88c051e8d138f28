"""The activation that ONNX Runtime's fused operators apply to their result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.precision import widened
from onnxgen.graph.ep.node import NodeSpec

Activation = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))`` without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def relu(x: np.ndarray) -> np.ndarray:
    """``max(x, 0)``."""
    return np.maximum(x, 0)


def clip(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """``x`` between two bounds."""
    return np.clip(x, low, high)


def leaky_relu(x: np.ndarray, alpha: float = 0.01) -> np.ndarray:
    """``x``, times ``alpha`` below 0."""
    return np.where(x >= 0, x, x * alpha)


def hard_sigmoid(x: np.ndarray, alpha: float = 0.2, beta: float = 0.5) -> np.ndarray:
    """``alpha * x + beta`` between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


_ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "": np.asarray,
    "Relu": relu,
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
    "LeakyRelu": leaky_relu,
    "Clip": clip,
    "HardSigmoid": hard_sigmoid,
}


def fused_activation(node: NodeSpec, params: tuple[float, ...] | None = None) -> Activation:
    """The function that ``activation`` names, with ``params`` (by default ``activation_params``) bound.

    Raises:
        InvalidGraphError: for an activation that no fused operator has.
    """
    name = node.attr("activation", "")
    if name not in _ACTIVATIONS:
        known = ", ".join(name for name in _ACTIVATIONS if name)
        raise InvalidGraphError(f"{node} has activation {name!r}; known are {known}")
    function, bound = _ACTIVATIONS[name], tuple(params or node.attr("activation_params", ()))

    def activate(x: np.ndarray) -> np.ndarray:
        return np.asarray(function(widened(x), *map(x.dtype.type, bound))).astype(x.dtype, copy=False)

    return activate
