"""``QuantizeLinear``, ``DequantizeLinear``, ``DynamicQuantizeLinear``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.graph.cpu.quantization import dequantize, dynamic_parameters, quantize, spread
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()


@TABLE.operator("QuantizeLinear", 1, domain=MICROSOFT, name="quantize_linear/microsoft")
@TABLE.operator("QuantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28)
def quantize_linear(node: NodeSpec) -> Kernel:
    """``saturate(round(x / scale) + zero_point)``, in the type of the scale or ``precision``."""
    axis, block_size = node.attr("axis", 1), node.attr("block_size", 0)
    asked, precision = _dtype(node, "output_dtype"), _dtype(node, "precision")
    saturate = bool(node.attr("saturate", 1))

    def write(
        x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None, y: np.ndarray | None
    ) -> np.ndarray:
        zeros = None
        if zero_point is not None:
            zeros = spread(zero_point, x.shape, axis=axis, block_size=block_size)
        return quantize(
            x,
            spread(scale, x.shape, axis=axis, block_size=block_size),
            zeros,
            asked or (np.dtype(np.uint8) if zero_point is None else zero_point.dtype),
            precision=precision,
            saturate=saturate,
            out=y,
        )

    def run(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None) -> np.ndarray:
        return write(x, scale, zero_point, None)

    def into(x: np.ndarray, scale: np.ndarray, *zero_point_and_y: np.ndarray | None) -> None:
        *zero_point, y = zero_point_and_y
        write(x, scale, zero_point[0] if zero_point else None, y)

    return Kernel(run, into)


@TABLE.operator("DequantizeLinear", 1, domain=MICROSOFT, name="dequantize_linear/microsoft")
@TABLE.operator("DequantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28)
def dequantize_linear(node: NodeSpec) -> Kernel:
    """``(x - zero_point) * scale`` in the type of the scale or ``output_dtype``; computed in float32 at least."""
    axis, block_size = node.attr("axis", 1), node.attr("block_size", 0)
    asked = _dtype(node, "output_dtype")

    def into(x: np.ndarray, scale: np.ndarray, *rest: np.ndarray | None) -> None:
        *zeros, y = rest
        assert y is not None
        zero_point = zeros[0] if zeros else None
        if zero_point is not None:
            zero_point = spread(zero_point, x.shape, axis=axis, block_size=block_size)
        dequantize(
            x, spread(scale, x.shape, axis=axis, block_size=block_size), zero_point, dtype=y.dtype, out=y
        )

    def run(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None = None) -> np.ndarray:
        y = np.empty(x.shape, asked or scale.dtype)
        into(x, scale, zero_point, y)
        return y

    return Kernel(run, into)


@TABLE.operator("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(node: NodeSpec) -> Kernel:
    """Quantize to uint8 by the tensor's own range; the results are the tensor, its scale and its zero point."""

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scale, zero_point = dynamic_parameters(x)
        return quantize(x, scale, zero_point, np.dtype(np.uint8)), scale, zero_point

    return Kernel(run)


def _dtype(node: NodeSpec, attribute: str) -> np.dtype | None:
    code = node.attr(attribute, 0)
    return numpy_dtype(ir.DataType(code)) if code else None
