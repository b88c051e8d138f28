"""Convolutions of quantized tensors."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.byte_convolution import (
    ArrangedWeights,
    ByteConvolution,
    Requantization,
    fits_bytes,
)
from onnxgen.graph.cpu.convolution import require_fit
from onnxgen.graph.cpu.integer_products import integer_convolve, peak, shifted
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.packed_bytes import BYTES
from onnxgen.graph.cpu.placed import placed
from onnxgen.graph.cpu.quantization import requantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import WindowSpec, out_shape
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("ConvInteger", 10)
def conv_integer(node: NodeSpec) -> Kernel:
    """Convolution of ``x - x_zero_point`` with ``w - w_zero_point`` in int32; padding counts as zero point."""
    spec, group, convolution = WindowSpec.of(node), node.attr("group", 1), ByteConvolution()
    weights = _arranged(node, 1, 3)

    def run(
        x: np.ndarray,
        w: np.ndarray,
        x_zero_point: np.ndarray | None = None,
        w_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        require_fit(x, w, None, group)
        axes = spec.axes(x.shape[2:], w.shape[2:])
        require_memory(node, (x.shape[0], w.shape[0], *out_shape(axes)), np.dtype(np.float32))
        if fits_bytes(x, w, axes, group):
            y = np.empty((x.shape[0], w.shape[0], *out_shape(axes)), np.int32)
            arranged = weights or ArrangedWeights.of(w, w_zero_point, group)
            convolution.totals(x, _first(x_zero_point), arranged, axes, y)
            return y
        return integer_convolve(
            shifted(x, None if x_zero_point is None else x_zero_point.reshape(-1)[:1]),
            shifted(w, by_output_channel(w_zero_point, w.ndim)),
            axes,
            group=group,
            x_peak=peak(x.dtype, x_zero_point),
        )

    return Kernel(run)


def _arranged(node: NodeSpec, w: int, zero_point: int) -> ArrangedWeights | None:
    """The node's weights, arranged once where they are constant bytes."""
    weights, zeros = node.constants.get(w), node.constants.get(zero_point)
    if weights is None or weights.dtype not in BYTES or (zeros is None and node.has_input(zero_point)):
        return None
    group = node.attr("group", 1)
    if not weights.size or weights.ndim < 3 or weights.shape[0] % group:
        return None
    return ArrangedWeights.of(weights, zeros, group)


def _first(zero_point: np.ndarray | None) -> int:
    return 0 if zero_point is None else int(zero_point.reshape(-1)[0])


def by_output_channel(parameter: np.ndarray | None, rank: int) -> np.ndarray | None:
    """A parameter of the weights ``[out, in / group, *kernel]``: one for all, or one for each output channel."""
    return None if parameter is None else parameter.reshape(-1, *(1,) * (rank - 1))


@TABLE.operator("QLinearConv", 1, domain=MICROSOFT, name="qlinear_conv/microsoft")
@TABLE.operator("QLinearConv", 10)
def qlinear_conv(node: NodeSpec) -> Kernel:
    """Convolution of quantized tensors, quantized again; the bias is int32 in units of both input scales."""
    spec, group, tiles = WindowSpec.of(node), node.attr("group", 1), ByteConvolution()
    weights, convolution = _arranged(node, 3, 5), conv_integer(node).run
    channels_last = bool(node.attr("channels_last", 0))

    def run(
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray,
        w: np.ndarray,
        w_scale: np.ndarray,
        w_zero_point: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray,
        b: np.ndarray | None = None,
    ) -> np.ndarray:
        x = np.moveaxis(x, -1, 1) if channels_last else x
        require_fit(x, w, b, group)
        axes = spec.axes(x.shape[2:], w.shape[2:])
        if fits_bytes(x, w, axes, group) and y_zero_point.dtype in BYTES:
            shape = (x.shape[0], w.shape[0], *out_shape(axes))
            require_memory(node, shape, np.dtype(np.float32))
            y = np.empty(shape, y_zero_point.dtype)
            to = Requantization(
                placed((x_scale * w_scale).reshape(-1)),
                placed(y_scale.reshape(1)),
                placed(y_zero_point.reshape(1).astype(np.int32)),
                None if b is None else placed(b),
            )
            arranged = weights or ArrangedWeights.of(w, w_zero_point, group)
            tiles.requantized(x, _first(x_zero_point), arranged, axes, y, to)
            return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if channels_last else y
        sums = convolution(x, w, x_zero_point, w_zero_point)
        if b is not None:
            sums += b.reshape(-1, *(1,) * (x.ndim - 2))
        scale = (x_scale * w_scale / y_scale).reshape(-1, *(1,) * (x.ndim - 2))
        y = requantize(sums.astype(np.float32), scale, y_zero_point.reshape(()), y_zero_point.dtype)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if channels_last else y

    return Kernel(run)
