"""Activation functions as operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu import activations
from onnxgen.graph.cpu.arrays import Formula, formula_kernel
from onnxgen.graph.cpu.maps import mapped
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_PLAIN: dict[str, tuple[tuple[int, ...], Callable[..., np.ndarray], bool]] = {
    # versions, function, whether y may be x
    "Relu": ((1, 6, 13, 14), activations.relu, True),
    "Sigmoid": ((1, 6, 13), activations.sigmoid, True),
    "Softplus": ((1, 22), activations.softplus, True),
    "Softsign": ((1, 22), activations.softsign, False),
    "Mish": ((18, 22), activations.mish, False),
    "HardSwish": ((14, 22), activations.hard_swish, False),
}


def _fixed(function: Callable[..., np.ndarray], *options: float) -> Formula:
    def write(x: np.ndarray, y: np.ndarray) -> None:
        function(x, *options, out=y)

    return write


def _gelu(approximate: str) -> Callable[..., np.ndarray]:
    return activations.gelu_tanh if approximate == "tanh" else activations.gelu


def _shrink(node: NodeSpec) -> Formula:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, 0 between; computed in float64 for integers."""
    lambd, bias = node.attr("lambd", 0.5), node.attr("bias", 0.0)

    def write(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))

    return write


def _selu(node: NodeSpec, alpha: float, gamma: float) -> Formula:
    return _fixed(activations.elu, node.attr("alpha", alpha), node.attr("gamma", gamma))


_WITH_ATTRIBUTES: dict[str, tuple[tuple[int, ...], Callable[[NodeSpec], Formula], bool]] = {
    "LeakyRelu": ((1, 6, 16), lambda n: _fixed(activations.leaky_relu, n.attr("alpha", 0.01)), False),
    "Elu": ((1, 6, 22), lambda n: _fixed(activations.elu, n.attr("alpha", 1.0)), False),
    "Celu": (
        (12, 28),
        lambda n: _fixed(activations.elu, n.attr("alpha", 1.0), 1.0, n.attr("alpha", 1.0)),
        False,
    ),
    "Selu": ((6, 22), lambda n: _selu(n, 1.67326319217681884765625, 1.05070102214813232421875), False),
    "HardSigmoid": (
        (1, 6, 22),
        lambda n: _fixed(activations.hard_sigmoid, n.attr("alpha", 0.2), n.attr("beta", 0.5)),
        True,
    ),
    "Swish": ((24,), lambda n: _fixed(activations.silu, n.attr("alpha", 1.0)), False),
    "Gelu": ((20,), lambda n: _fixed(_gelu(n.attr("approximate", "none"))), False),
    "ThresholdedRelu": (
        (1, 10, 22),
        lambda n: _fixed(activations.thresholded_relu, n.attr("alpha", 1.0)),
        True,
    ),
    "Shrink": ((9,), _shrink, True),
}


def _register(
    op_type: str, versions: tuple[int, ...], make: Callable[[NodeSpec], Formula], in_place: bool
) -> None:
    @TABLE.operator(op_type, *versions, name=op_type.lower())
    def kernel(node: NodeSpec) -> Kernel:
        return formula_kernel(make(node), in_place=in_place)


for _op_type, (_versions, _function, _in_place) in _PLAIN.items():
    _register(_op_type, _versions, lambda node, function=_function: _fixed(function), _in_place)
for _op_type, (_versions, _make, _in_place) in _WITH_ATTRIBUTES.items():
    _register(_op_type, _versions, _make, _in_place)


@TABLE.operator("Selu", 1, name="selu/1")
def selu_1(node: NodeSpec) -> Kernel:
    """Selu with the constants that the standard had at first."""
    return formula_kernel(_selu(node, 1.6732, 1.0507))


@TABLE.operator("SwiGLU", 28)
def swiglu(node: NodeSpec) -> Kernel:
    """``swish(gate) * value``."""
    alpha = node.attr("alpha", 1.0)

    def write(gate: np.ndarray, value: np.ndarray, y: np.ndarray) -> None:
        activations.silu(gate, alpha, out=y)
        np.multiply(y, value, y)

    return formula_kernel(write)


@TABLE.operator("PRelu", 7, 9, 16)
def prelu(node: NodeSpec) -> Kernel:
    """LeakyRelu with a tensor of slopes that broadcasts to ``x``."""

    def write(x: np.ndarray, slope: np.ndarray, y: np.ndarray) -> None:
        activations.leaky_relu(x, slope, out=y)

    return formula_kernel(write)


@TABLE.operator("PRelu", 1, 6, name="prelu/channels")
def prelu_before_7(node: NodeSpec) -> Kernel:
    """One slope for all, or one for each channel (axis 1)."""

    def write(x: np.ndarray, slope: np.ndarray, y: np.ndarray) -> None:
        per_channel = slope.size != 1 and x.ndim > 1
        slopes = slope.reshape((-1, *[1] * (x.ndim - 2))) if per_channel else slope.reshape(-1)
        activations.leaky_relu(x, slopes, out=y)

    return formula_kernel(write)


@TABLE.operator("Clip", 11, 12, 13)
def clip(node: NodeSpec) -> Kernel:
    """Values between two optional limits; the upper one wins where they cross."""

    def write(x: np.ndarray, *limits_and_y: np.ndarray | None) -> None:
        *limits, y = limits_and_y
        low, high = [*limits, None, None][:2]
        assert y is not None
        if x.dtype == np.float32:
            alpha = -np.inf if low is None else float(low.reshape(()))
            mapped("between", x, y, alpha=alpha, beta=np.inf if high is None else float(high.reshape(())))
            return
        bounded = x if low is None else np.maximum(x, low, out=y)
        if high is not None:
            np.minimum(bounded, high, out=y)
        elif low is None:
            np.copyto(y, x)

    return formula_kernel(write, in_place=True)


@TABLE.operator("Clip", 1, 6, name="clip/attributes")
def clip_before_11(node: NodeSpec) -> Kernel:
    """The same with attributes for limits."""
    low, high = node.attr("min"), node.attr("max")

    def write(x: np.ndarray, y: np.ndarray) -> None:
        if x.dtype == np.float32:
            alpha, beta = -np.inf if low is None else low, np.inf if high is None else high
            mapped("between", x, y, alpha=alpha, beta=beta)
            return
        bounded = x if low is None else np.maximum(x, x.dtype.type(low), out=y)
        if high is not None:
            np.minimum(bounded, x.dtype.type(high), out=y)
        elif low is None:
            np.copyto(y, x)

    return formula_kernel(write, in_place=True)
