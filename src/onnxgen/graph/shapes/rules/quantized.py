"""Quantization as ONNX Runtime extends it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    broadcast_shapes,
    input_at,
    integer,
    integers,
    required,
    set_output,
    sizes,
)

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


def _together(*operands: int) -> Rule:
    """Element by element; the other inputs are scales and zero points."""

    def rule(context: Context, node: ir.Node) -> None:
        shape = broadcast_shapes(*(sizes(required(node, index)) for index in operands))
        set_output(context, node, 0, shape, required(node, operands[-1]).dtype)

    return rule


def _concat(context: Context, node: ir.Node) -> None:
    """QLinearConcat: scale and zero point of the result, then triples of data, scale and zero point."""
    shapes = [sizes(value) for value in node.inputs[2::3]]
    known = [shape for shape in shapes if shape is not None]
    dims = None
    if known and len(known) == len(shapes):
        axis = axis_in(integer(node, "axis", 0), len(known[0]))
        dims = list(known[0])
        dims[axis] = algebra.total(shape[axis] for shape in known)
    set_output(context, node, 0, dims, required(node, 1).dtype)


def _reduce_mean(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, axes, keep = sizes(data), integers(node, "axes"), integer(node, "keepdims", 1)
    if shape is not None:
        gone = {axis_in(axis, len(shape)) for axis in axes or range(len(shape))}
        shape = [1 if at in gone else dim for at, dim in enumerate(shape) if keep or at not in gone]
    set_output(context, node, 0, shape, data.dtype)


RULES: Mapping[tuple[str, str], Rule] = {
    (_MS, "QLinearAdd"): _together(0, 3),
    (_MS, "QLinearMul"): _together(0, 3),
    (_MS, "QLinearWhere"): _together(0, 1, 4),
    (_MS, "QLinearConcat"): _concat,
    (_MS, "QLinearReduceMean"): _reduce_mean,
    (_MS, "GatherBlockQuantized"): _gather_blocks,
    (_MS, "QuantizeLinear"): _quantize,
    (_MS, "DequantizeLinear"): _dequantize,
}
