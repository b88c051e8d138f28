"""Convolution: ``Conv``, and ONNX Runtime's forms with an activation or channels last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.costs.roofline import Roofline
from onnxgen.graph.cpu.activation_functions import fused_activation
from onnxgen.graph.cpu.convolution import convolve, convolve_depthwise
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import Axis, WindowSpec
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import TensorType

TABLE = KernelTable()

Convolution = Callable[..., np.ndarray]


def _not_depthwise(node: NodeSpec) -> str | None:
    weights = node.inputs[1]
    if not isinstance(weights, TensorType) or weights.shape is None or len(weights.shape) < 3:
        return "the shape of the weights is not known"
    out, per_group = weights.shape[:2]
    group = node.attr("group", 1)
    if per_group != 1 or not isinstance(out, int) or group < 2 or out % group:
        return f"{group} groups of {per_group} channels are not depthwise"
    return None


def _depthwise_seconds(node: NodeSpec, cost: Cost, roofline: Roofline) -> float | None:
    """Two passes over the cache for each multiply-add: a few times the roofline, far less than tiny products."""
    seconds = roofline.seconds(cost)
    return None if seconds is None else 4 * seconds


def _columns_seconds(node: NodeSpec, cost: Cost, roofline: Roofline) -> float | None:
    """Matrix products of one row, as depthwise ones are, run far below the peak."""
    seconds = roofline.seconds(cost)
    return seconds if seconds is None or _not_depthwise(node) else 20 * seconds


def _kernel(node: NodeSpec, convolution: Convolution) -> Kernel:
    spec = WindowSpec.of(node)

    def run(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        y = convolution(widened(x), widened(w), spec.axes(x.shape[2:], w.shape[2:]))
        return _biased(y, b).astype(x.dtype, copy=False)

    def into(x: np.ndarray, w: np.ndarray, *rest: np.ndarray | None) -> None:
        *bias, y = rest
        b = bias[0] if bias else None
        assert y is not None
        if widened(y) is not y:
            y[...] = run(x, w, b)
            return
        _biased(convolution(x, w, spec.axes(x.shape[2:], w.shape[2:]), out=y), b)

    return Kernel(run, into)


def _biased(y: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    if b is not None:
        y += widened(b).reshape(-1, *(1,) * (y.ndim - 2))
    return y


@TABLE.operator("Conv", 1, 11, 22, name="conv/depthwise", why_not=_not_depthwise, seconds=_depthwise_seconds)
def conv_depthwise(node: NodeSpec) -> Kernel:
    """Convolution with one input channel a group."""
    return _kernel(node, convolve_depthwise)


@TABLE.operator("Conv", 1, 11, 22, name="conv/columns", seconds=_columns_seconds)
def conv(node: NodeSpec) -> Kernel:
    """Convolution over any number of spatial axes, in groups."""
    group = node.attr("group", 1)

    def convolution(
        x: np.ndarray, w: np.ndarray, axes: tuple[Axis, ...], out: np.ndarray | None = None
    ) -> np.ndarray:
        return convolve(x, w, axes, group=group, out=out)

    return _kernel(node, convolution)


@TABLE.operator("FusedConv", 1, domain=MICROSOFT)
def fused_conv(node: NodeSpec) -> Kernel:
    """``activation(Conv(x, w, b) + z)``; without ``activation`` the sum itself."""
    convolution, activation = conv(node).run, fused_activation(node)

    def run(
        x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        y = convolution(x, w, b)
        return activation(y if z is None else y + z)

    return Kernel(run)


@TABLE.operator("NhwcFusedConv", 1, domain=MICROSOFT)
@TABLE.operator("NhwcConv", 1, domain=MICROSOFT)
def nhwc_conv(node: NodeSpec) -> Kernel:
    """Convolution of ``[batch, *size, in]`` into ``[batch, *out, out]``; weights as in ``Conv``."""
    convolution = fused_conv(node).run

    def run(
        x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        first = None if z is None else np.moveaxis(z, -1, 1)
        y = convolution(np.moveaxis(x, -1, 1), w, b, first)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1))

    return Kernel(run)
