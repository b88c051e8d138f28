"""Convolutions of quantized tensors."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.convolution import require_fit
from onnxgen.graph.cpu.integer_products import integer_convolve, peak, shifted
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.quantization import requantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import WindowSpec, out_shape
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("ConvInteger", 10)
def conv_integer(node: NodeSpec) -> Kernel:
    """Convolution of ``x - x_zero_point`` with ``w - w_zero_point`` in int32; padding counts as zero point."""
    spec, group = WindowSpec.of(node), node.attr("group", 1)

    def run(
        x: np.ndarray,
        w: np.ndarray,
        x_zero_point: np.ndarray | None = None,
        w_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        require_fit(x, w, None, group)
        axes = spec.axes(x.shape[2:], w.shape[2:])
        require_memory(node, (x.shape[0], w.shape[0], *out_shape(axes)), np.dtype(np.float32))
        return integer_convolve(
            shifted(x, None if x_zero_point is None else x_zero_point.reshape(-1)[:1]),
            shifted(w, by_output_channel(w_zero_point, w.ndim)),
            axes,
            group=group,
            x_peak=peak(x.dtype, x_zero_point),
        )

    return Kernel(run)


def by_output_channel(parameter: np.ndarray | None, rank: int) -> np.ndarray | None:
    """A parameter of the weights ``[out, in / group, *kernel]``: one for all, or one for each output channel."""
    return None if parameter is None else parameter.reshape(-1, *(1,) * (rank - 1))


@TABLE.operator("QLinearConv", 1, domain=MICROSOFT, name="qlinear_conv/microsoft")
@TABLE.operator("QLinearConv", 10)
def qlinear_conv(node: NodeSpec) -> Kernel:
    """Convolution of quantized tensors, quantized again; the bias is int32 in units of both input scales."""
    convolution = conv_integer(node).run
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
        sums = convolution(x, w, x_zero_point, w_zero_point)
        require_fit(x, w, b, node.attr("group", 1))
        if b is not None:
            sums += b.reshape(-1, *(1,) * (x.ndim - 2))
        scale = (x_scale * w_scale / y_scale).reshape(-1, *(1,) * (x.ndim - 2))
        y = requantize(sums.astype(np.float32), scale, y_zero_point.reshape(()), y_zero_point.dtype)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if channels_last else y

    return Kernel(run)
