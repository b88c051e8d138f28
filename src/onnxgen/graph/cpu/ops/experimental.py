"""Operators that the standard had as experiments, all of its first version, and dropped before opset 10.

ONNX Runtime still runs them; converters of that time wrote them into models of vision.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.arrays import Formula, formula_kernel, function_kernel
from onnxgen.graph.cpu.indexing import integers
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.views import view_kernel
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _line(alpha: float, beta: float) -> Formula:
    """``alpha * x + beta``."""

    def write(x: np.ndarray, y: np.ndarray) -> None:
        np.multiply(x, alpha, y)
        np.add(y, beta, y)

    return write


def _scaled_tanh(alpha: float, beta: float) -> Formula:
    """``alpha * tanh(beta * x)``."""

    def write(x: np.ndarray, y: np.ndarray) -> None:
        np.multiply(x, beta, y)
        np.tanh(y, y)
        np.multiply(y, alpha, y)

    return write


def _parametric_softplus(alpha: float, beta: float) -> Formula:
    """``alpha * log(1 + exp(beta * x))``."""

    def write(x: np.ndarray, y: np.ndarray) -> None:
        np.multiply(x, beta, y)
        np.logaddexp(y, x.dtype.type(0), y)
        np.multiply(y, alpha, y)

    return write


_FORMULAS: dict[str, Callable[[NodeSpec], Formula]] = {
    "Affine": lambda node: _line(node.attr("alpha", 1.0), node.attr("beta", 0.0)),
    "Scale": lambda node: _line(node.attr("scale", 1.0), 0.0),
    "ScaledTanh": lambda node: _scaled_tanh(_required(node, "alpha"), _required(node, "beta")),
    "ParametricSoftplus": lambda node: _parametric_softplus(
        _required(node, "alpha"), _required(node, "beta")
    ),
}


def _required(node: NodeSpec, name: str) -> float:
    value = node.attr(name)
    if value is None:
        raise InvalidGraphError(f"{node} has no attribute {name!r}, which it must have")
    return value


@TABLE.operator("Affine", 1)
@TABLE.operator("Scale", 1)
@TABLE.operator("ScaledTanh", 1)
@TABLE.operator("ParametricSoftplus", 1)
def elementwise(node: NodeSpec) -> Kernel:
    """A function of each element with the parameters ``alpha`` and ``beta``, or ``scale``."""
    return formula_kernel(_FORMULAS[node.op_type](node), in_place=True)


@TABLE.operator("ImageScaler", 1)
def image_scaler(node: NodeSpec) -> Kernel:
    """``x [batch, channels, ...]`` times ``scale``, plus the ``bias`` of each channel."""
    scale, bias = node.attr("scale", 1.0), np.array(node.attr("bias", ()), np.float32)

    def run(x: np.ndarray) -> np.ndarray:
        shifts = bias.reshape(-1, *(1,) * (x.ndim - 2))
        return (x * np.float32(scale) + shifts).astype(x.dtype, copy=False)

    return function_kernel(run)


@TABLE.operator("Crop", 1)
def crop(node: NodeSpec) -> Kernel:
    """Images ``[batch, channels, height, width]`` without a ``border`` left, above, right and below.

    ``scale``, a height and a width, says how much is left in place of the borders right and below.
    """
    left, top, right, bottom = node.attr("border", (0, 0, 0, 0))
    size = node.attr("scale")

    def view(x: np.ndarray) -> np.ndarray:
        height, width = size or (x.shape[2] - top - bottom, x.shape[3] - left - right)
        return x[:, :, top : top + height, left : left + width]

    return view_kernel(view)


@TABLE.operator("DynamicSlice", 1)
def dynamic_slice(node: NodeSpec) -> Kernel:
    """Slices of some axes, from ``starts`` to ``ends``; what became ``Slice`` of opset 10."""

    def view(
        x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray | None = None
    ) -> np.ndarray:
        parts = [slice(None)] * x.ndim
        names = range(len(starts)) if axes is None else integers(axes)
        for axis, start, end in zip(names, integers(starts), integers(ends), strict=True):
            parts[axis] = slice(start, end)
        return x[tuple(parts)]

    return view_kernel(view)


@TABLE.operator("MeanVarianceNormalization", 1)
def mean_variance_normalization_1(node: NodeSpec) -> Kernel:
    """Subtract the mean over ``[batch, channels, height, width]`` of each channel, or of all; divide by the deviation."""
    axes = (1, 2, 3) if node.attr("across_channels", 0) else (2, 3)
    divides = bool(node.attr("normalize_variance", 1))

    def write(x: np.ndarray, y: np.ndarray) -> None:
        np.subtract(x, x.mean((0, *axes), keepdims=True), y)
        if divides:
            np.divide(y, np.sqrt(np.square(y).mean((0, *axes), keepdims=True)) + x.dtype.type(1e-9), y)

    return formula_kernel(write, in_place=True)
