"""Activation functions.

A formula ``(x, y)`` writes ``y``, which may be the memory of ``x`` when it reads ``x`` only before it first writes
``y``, or element by element in the same step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.arrays import Formula, formula_kernel
from onnxgen.graph.cpu.erf import erf
from onnxgen.graph.cpu.maps import mapped
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_WORTH_SHARING = 16384
"""Elements from which on a compiled loop of several threads beats NumPy at what it does in one instruction."""


def relu(x: np.ndarray, y: np.ndarray) -> None:
    """``max(x, 0)``, and NaN stays NaN; ``y`` may be ``x``."""
    if x.size > _WORTH_SHARING and x.dtype == np.float32:
        mapped("relu", x, y)
        return
    np.maximum(x, x.dtype.type(0), out=y)


def sigmoid(x: np.ndarray, y: np.ndarray) -> None:
    """``1 / (1 + exp(-x))``; ``y`` may be ``x``."""
    if x.dtype == np.float32:
        mapped("logistic", x, y)
        return
    np.negative(x, y)
    np.exp(y, y)
    np.add(y, 1, y)
    np.reciprocal(y, y)


def softplus(x: np.ndarray, y: np.ndarray) -> None:
    """``log(1 + exp(x))`` without overflow."""
    np.logaddexp(x, x.dtype.type(0), y)


def swish(x: np.ndarray, y: np.ndarray, alpha: float = 1.0) -> None:
    """``x * sigmoid(alpha * x)``; ``y`` must not be ``x``."""
    if x.dtype == np.float32:
        mapped("swish", x, y, alpha=alpha)
        return
    if alpha == 1.0:
        sigmoid(x, y)
    else:
        np.multiply(x, alpha, y)
        sigmoid(y, y)
    np.multiply(x, y, y)


def gelu(x: np.ndarray, y: np.ndarray) -> None:
    """``x / 2 * (1 + erf(x / sqrt(2)))``; ``y`` must not be ``x``."""
    if x.dtype == np.float32:
        mapped("gelu", x, y)
        return
    np.multiply(x, 0.5**0.5, y)
    erf()(y, y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, 0.5, y)


def gelu_tanh(x: np.ndarray, y: np.ndarray) -> None:
    """The approximation ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``; ``y`` must not be ``x``."""
    if x.dtype == np.float32:
        mapped("gelu_tanh", x, y)
        return
    np.multiply(x, x, y)
    np.multiply(y, 0.044715, y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, (2 / np.pi) ** 0.5, y)
    np.tanh(y, y)
    np.add(y, 1, y)
    np.multiply(y, x, y)
    np.multiply(y, 0.5, y)


def elu(x: np.ndarray, y: np.ndarray, alpha: float, gamma: float = 1.0, rate: float = 1.0) -> None:
    """``gamma * x`` where ``x > 0``, else ``gamma * alpha * (exp(x / rate) - 1)``; ``y`` must not be ``x``."""
    np.minimum(x, 0, out=y)
    if rate != 1.0:
        np.divide(y, rate, y)
    np.expm1(y, y)
    np.multiply(y, alpha * gamma, y)
    positive = np.maximum(x, 0)
    if gamma != 1.0:
        positive = positive * gamma
    np.add(y, positive, y)


def leaky_relu(x: np.ndarray, y: np.ndarray, slope: float | np.ndarray) -> None:
    """``x`` where ``x >= 0``, else ``slope * x``; ``y`` must not be ``x``."""
    if x.dtype == np.float32 and isinstance(slope, float):
        mapped("leaky_relu", x, y, alpha=slope)
        return
    if isinstance(slope, float) and 0 <= slope <= 1:
        np.multiply(x, slope, y)
        np.maximum(x, y, out=y)
        return
    np.minimum(x, 0, out=y)
    np.multiply(y, slope, y)
    np.add(y, np.maximum(x, 0), y)


def hard_sigmoid(x: np.ndarray, y: np.ndarray, alpha: float, beta: float) -> None:
    """``alpha * x + beta`` between 0 and 1; ``y`` may be ``x``."""
    if x.dtype == np.float32:
        mapped("hard_sigmoid", x, y, alpha=alpha, beta=beta)
        return
    np.multiply(x, alpha, y)
    np.add(y, beta, y)
    np.clip(y, 0, 1, y)


def hard_swish(x: np.ndarray, y: np.ndarray) -> None:
    """``x * hard_sigmoid(x)`` with slope 1/6; ``y`` must not be ``x``."""
    if x.dtype == np.float32:
        mapped("hard_swish", x, y, alpha=1 / 6, beta=0.5)
        return
    hard_sigmoid(x, y, 1 / 6, 0.5)
    np.multiply(y, x, y)


def mish(x: np.ndarray, y: np.ndarray) -> None:
    """``x * tanh(softplus(x))``; ``y`` must not be ``x``."""
    softplus(x, y)
    np.tanh(y, y)
    np.multiply(y, x, y)


def softsign(x: np.ndarray, y: np.ndarray) -> None:
    """``x / (1 + |x|)``; ``y`` must not be ``x``."""
    np.absolute(x, y)
    np.add(y, 1, y)
    np.divide(x, y, y)


def thresholded_relu(x: np.ndarray, y: np.ndarray, alpha: float) -> None:
    """``x`` where it is above ``alpha``, else 0; ``y`` may be ``x``."""
    below = ~(x > alpha)
    np.copyto(y, x)
    y[below] = 0


def shrink(x: np.ndarray, y: np.ndarray, lambd: float, bias: float) -> None:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, 0 between; computed in float64 for integers."""
    shifted = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
    y[...] = shifted


_PLAIN: dict[str, tuple[tuple[int, ...], Formula, bool]] = {
    # versions, formula, whether y may be x
    "Relu": ((1, 6, 13, 14), relu, True),
    "Sigmoid": ((1, 6, 13), sigmoid, True),
    "Softplus": ((1, 22), softplus, True),
    "Softsign": ((1, 22), softsign, False),
    "Mish": ((18, 22), mish, False),
    "HardSwish": ((14, 22), hard_swish, False),
}

_WITH_ATTRIBUTES: dict[str, tuple[tuple[int, ...], Callable[[NodeSpec], Formula], bool]] = {
    "LeakyRelu": ((1, 6, 16), lambda n: _fixed(leaky_relu, n.attr("alpha", 0.01)), False),
    "Elu": ((1, 6, 22), lambda n: _fixed(elu, n.attr("alpha", 1.0)), False),
    "Celu": ((12, 28), lambda n: _fixed(elu, n.attr("alpha", 1.0), 1.0, n.attr("alpha", 1.0)), False),
    "Selu": ((6, 22), lambda n: _selu(n, 1.67326319217681884765625, 1.05070102214813232421875), False),
    "HardSigmoid": (
        (1, 6, 22),
        lambda n: _fixed(hard_sigmoid, n.attr("alpha", 0.2), n.attr("beta", 0.5)),
        True,
    ),
    "Swish": ((24,), lambda n: _fixed(swish, n.attr("alpha", 1.0)), False),
    "Gelu": ((20,), lambda n: gelu_tanh if n.attr("approximate", "none") == "tanh" else gelu, False),
    "ThresholdedRelu": ((1, 10, 22), lambda n: _fixed(thresholded_relu, n.attr("alpha", 1.0)), True),
    "Shrink": ((9,), lambda n: _fixed(shrink, n.attr("lambd", 0.5), n.attr("bias", 0.0)), True),
}


def _fixed(formula: Callable[..., None], *options: float) -> Formula:
    def write(x: np.ndarray, y: np.ndarray) -> None:
        formula(x, y, *options)

    return write


def _selu(node: NodeSpec, alpha: float, gamma: float) -> Formula:
    return _fixed(elu, node.attr("alpha", alpha), node.attr("gamma", gamma))


def _register(
    op_type: str, versions: tuple[int, ...], make: Callable[[NodeSpec], Formula], in_place: bool
) -> None:
    @TABLE.operator(op_type, *versions, name=op_type.lower())
    def kernel(node: NodeSpec) -> Kernel:
        return formula_kernel(make(node), in_place=in_place)


for _op_type, (_versions, _formula, _in_place) in _PLAIN.items():
    _register(_op_type, _versions, lambda node, formula=_formula: formula, _in_place)
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
        swish(gate, y, alpha)
        np.multiply(y, value, y)

    return formula_kernel(write)


@TABLE.operator("PRelu", 7, 9, 16)
def prelu(node: NodeSpec) -> Kernel:
    """LeakyRelu with a tensor of slopes that broadcasts to ``x``."""

    def write(x: np.ndarray, slope: np.ndarray, y: np.ndarray) -> None:
        leaky_relu(x, y, slope)

    return formula_kernel(write)


@TABLE.operator("PRelu", 1, 6, name="prelu/channels")
def prelu_before_7(node: NodeSpec) -> Kernel:
    """One slope for all, or one for each channel (axis 1)."""

    def write(x: np.ndarray, slope: np.ndarray, y: np.ndarray) -> None:
        per_channel = slope.size != 1 and x.ndim > 1
        leaky_relu(x, y, slope.reshape((-1, *[1] * (x.ndim - 2))) if per_channel else slope.reshape(-1))

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
