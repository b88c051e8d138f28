"""Quantization as ONNX Runtime extends it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import Rule, axis_in, input_at, integer, required, set_output, sizes

_MS = "com.microsoft"


def _gather_blocks(context: Context, node: ir.Node) -> None:
    """GatherBlockQuantized: rows of a quantized table, dequantized; ``uint8`` tables hold packed elements."""
    table, indices, scales = required(node, 0), required(node, 1), required(node, 2)
    shape, picked = sizes(table), sizes(indices)
    if shape is None or picked is None:
        set_output(context, node, 0, None, scales.dtype)
        return
    bits = integer(node, "bits", 4)
    if table.dtype is ir.DataType.UINT8 and bits < 8:
        shape[-1] = algebra.product((shape[-1], 8 // bits))
    axis = axis_in(integer(node, "gather_axis", 0), len(shape))
    set_output(context, node, 0, [*shape[:axis], *picked, *shape[axis + 1 :]], scales.dtype)


def _quantize(context: Context, node: ir.Node) -> None:
    zero_point = input_at(node, 2)
    dtype = ir.DataType.UINT8 if zero_point is None else zero_point.dtype
    set_output(context, node, 0, sizes(required(node, 0)), dtype)


def _dequantize(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, sizes(required(node, 0)), required(node, 1).dtype)


RULES: Mapping[tuple[str, str], Rule] = {
    (_MS, "GatherBlockQuantized"): _gather_blocks,
    (_MS, "QuantizeLinear"): _quantize,
    (_MS, "DequantizeLinear"): _dequantize,
}
