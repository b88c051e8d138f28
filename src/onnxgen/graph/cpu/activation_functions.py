"""Activations that operators name in an attribute: those of recurrent cells and of ONNX Runtime's fused operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.maps import mapped
from onnxgen.graph.ep.node import NodeSpec

Activation = Callable[[np.ndarray], np.ndarray]


_LONG = 4096
"""Elements from which on one compiled pass beats NumPy's quick calls."""


def _is_long(x: np.ndarray) -> bool:
    return x.dtype == np.float32 and x.size >= _LONG


def relu(x: np.ndarray) -> np.ndarray:
    """``max(x, 0)``."""
    return mapped("relu", x) if _is_long(x) else np.maximum(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))`` without overflow."""
    if _is_long(x):
        return mapped("logistic", x)
    return 0.5 * (1 + np.tanh(0.5 * x))


def softsign(x: np.ndarray) -> np.ndarray:
    """``x / (1 + abs(x))``."""
    return x / (1 + np.abs(x))


def softplus(x: np.ndarray) -> np.ndarray:
    """``log(1 + exp(x))``."""
    return np.logaddexp(x, x.dtype.type(0))


def leaky_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    """``x``, times ``alpha`` below 0."""
    if _is_long(x):
        return mapped("leaky_relu", x, alpha=alpha)
    return np.where(x >= 0, x, x * alpha)


def thresholded_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    """``x`` where it is above ``alpha``, else 0."""
    return np.where(x > alpha, x, 0)


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    """``x``, and ``alpha * (exp(x) - 1)`` below 0."""
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def affine(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * x + beta``."""
    return alpha * x + beta


def scaled_tanh(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * tanh(beta * x)``."""
    return alpha * np.tanh(beta * x)


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * x + beta`` between 0 and 1."""
    if _is_long(x):
        return mapped("hard_sigmoid", x, alpha=alpha, beta=beta)
    return np.clip(alpha * x + beta, 0, 1)


def clip(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """``x`` between two bounds."""
    if _is_long(x):
        return mapped("between", x, alpha=low, beta=high)
    return np.clip(x, low, high)


# Function, and the defaults of its parameters (alpha, beta).
_ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], tuple[float, ...]]] = {
    "relu": (relu, ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "softsign": (softsign, ()),
    "softplus": (softplus, ()),
    "leakyrelu": (leaky_relu, (0.01,)),
    "thresholdedrelu": (thresholded_relu, (1.0,)),
    "elu": (elu, (1.0,)),
    "affine": (affine, (1.0, 0.0)),
    "scaledtanh": (scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (hard_sigmoid, (0.2, 0.5)),
    "clip": (clip, (-np.inf, np.inf)),
}


def activation(node: NodeSpec, name: str, params: Sequence[float | None] = ()) -> Activation:
    """The function of that name, in any case, with its parameters bound; missing ones and None have their defaults.

    Raises:
        InvalidGraphError: for an unknown name.
    """
    function, defaults = _found(node, name)
    bound = tuple(
        default if given is None else given
        for given, default in zip_longest(params[: len(defaults)], defaults)
    )
    if not bound:
        return function
    return lambda x: function(x, *map(x.dtype.type, bound))


def num_params(node: NodeSpec, name: str) -> int:
    """How many parameters (alpha, then beta) the activation of that name takes.

    Raises:
        InvalidGraphError: for an unknown name.
    """
    return len(_found(node, name)[1])


def _found(node: NodeSpec, name: str) -> tuple[Callable[..., np.ndarray], tuple[float, ...]]:
    if name.lower() not in _ACTIVATIONS:
        raise InvalidGraphError(f"{node} has activation {name!r}; known are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name.lower()]


def fused_activation(node: NodeSpec) -> Activation:
    """What the attribute ``activation`` names, computed in float32 at least; nothing where the node has none.

    Parameters are in ``activation_params``, or in ``activation_alpha`` and ``activation_beta``.
    """
    name = node.attr("activation", "")
    if not name:
        return np.asarray
    params = node.attr("activation_params") or (node.attr("activation_alpha"), node.attr("activation_beta"))
    function = activation(node, name, params)
    return lambda x: np.asarray(function(widened(x))).astype(x.dtype, copy=False)
