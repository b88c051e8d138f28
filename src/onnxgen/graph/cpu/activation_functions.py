"""Activations that operators name in an attribute: those of recurrent cells and of ONNX Runtime's fused operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu import activations
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.maps import mapped
from onnxgen.graph.ep.node import NodeSpec

Activation = Callable[[np.ndarray], np.ndarray]


def affine(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * x + beta``."""
    return alpha * x + beta


def scaled_tanh(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * tanh(beta * x)``."""
    return alpha * np.tanh(beta * x)


def clip(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """``x`` between two bounds."""
    if x.dtype == np.float32 and x.size >= _LONG:
        return mapped("between", x, alpha=low, beta=high)
    return np.clip(x, low, high)


_LONG = 4096
"""Elements from which on one compiled pass beats NumPy's quick calls."""

# Function, and the defaults of its parameters (alpha, beta).
_ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], tuple[float, ...]]] = {
    "relu": (activations.relu, ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (activations.sigmoid, ()),
    "softsign": (activations.softsign, ()),
    "softplus": (activations.softplus, ()),
    "leakyrelu": (activations.leaky_relu, (0.01,)),
    "thresholdedrelu": (activations.thresholded_relu, (1.0,)),
    "elu": (activations.elu, (1.0,)),
    "affine": (affine, (1.0, 0.0)),
    "scaledtanh": (scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (activations.hard_sigmoid, (0.2, 0.5)),
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
