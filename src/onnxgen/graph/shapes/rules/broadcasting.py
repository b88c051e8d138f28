"""Element by element operators: the outputs have the shape that the inputs have together."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    broadcast_shapes,
    constant,
    fresh,
    integer,
    required,
    set_output,
    sizes,
)

_ARITHMETIC = """Add Sub Mul Div Mod Pow BitShift BitwiseAnd BitwiseOr BitwiseXor PRelu Max Min Mean Sum"""
_LOGIC = "Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor"


def _arithmetic(context: Context, node: ir.Node) -> None:
    shape = broadcast_shapes(*(sizes(value) for value in node.inputs))
    set_output(context, node, 0, shape, required(node, 0).dtype)


def _prelu(context: Context, node: ir.Node) -> None:
    data = required(node, 0)  # the slope is broadcast to the data, never the other way
    set_output(context, node, 0, sizes(data), data.dtype)


def _logic(context: Context, node: ir.Node) -> None:
    shape = broadcast_shapes(*(sizes(value) for value in node.inputs))
    set_output(context, node, 0, shape, ir.DataType.BOOL)


def _where(context: Context, node: ir.Node) -> None:
    shape = broadcast_shapes(*(sizes(value) for value in node.inputs))
    set_output(context, node, 0, shape, required(node, 1).dtype or required(node, 2).dtype)


def _expand(context: Context, node: ir.Node) -> None:
    data, wanted = required(node, 0), required(node, 1)
    set_output(context, node, 0, None, data.dtype)
    elements, shape, length = context.elements(wanted), sizes(data), sizes(wanted)
    if elements is None and length is not None and len(length) == 1 and isinstance(length[0], int):
        elements = [None] * min(length[0], 64)
    if elements is None or shape is None:
        return
    rank = max(len(shape), len(elements))
    given: list[Size] = [1] * (rank - len(shape)) + shape
    target = [1] * (rank - len(elements)) + list(elements)
    dims = [
        (dim if dim not in (1,) and isinstance(dim, int) and dim > 1 else context.new_symbolic_dim())
        if element is None
        else algebra.broadcast(dim, element)
        for dim, element in zip(given, target, strict=True)
    ]
    set_output(context, node, 0, dims, data.dtype)


def _reshape(context: Context, node: ir.Node) -> None:
    data, wanted = required(node, 0), required(node, 1)
    set_output(context, node, 0, None, data.dtype)
    elements, shape, length = context.elements(wanted), sizes(data), sizes(wanted)
    if elements is None:
        if length is not None and len(length) == 1 and isinstance(length[0], int) and length[0] <= 64:
            set_output(context, node, 0, fresh(context, length[0]), None)
        return
    dims: list[Size | None] = []
    for at, element in enumerate(elements):
        if element == 0 and not integer(node, "allowzero", 0):
            dims.append(shape[at] if shape is not None and at < len(shape) else None)
        else:
            dims.append(None if element == -1 else element)
    unknown = [at for at, dim in enumerate(dims) if dim is None]
    known = [dim for dim in dims if dim is not None]
    if len(unknown) == 1 and shape is not None and 0 not in known:
        dims[unknown[0]] = algebra.quotient(algebra.product(shape), algebra.product(known))
    set_output(
        context, node, 0, [context.new_symbolic_dim() if dim is None else dim for dim in dims], data.dtype
    )


def _tile(context: Context, node: ir.Node) -> None:
    data, repeats = required(node, 0), required(node, 1)
    shape, elements = sizes(data), context.elements(repeats)
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    if elements is None or len(elements) != len(shape):
        elements = [None] * len(shape)
    dims = [
        context.new_symbolic_dim() if times is None else algebra.product((dim, times))
        for dim, times in zip(shape, elements, strict=True)
    ]
    set_output(context, node, 0, dims, data.dtype)


def _filled(context: Context, node: ir.Node) -> None:
    """ConstantOfShape."""
    wanted = required(node, 0)
    attribute = node.attributes.get("value")
    dtype = ir.DataType.FLOAT if attribute is None else attribute.as_tensor().dtype
    elements, length = context.elements(wanted), sizes(wanted)
    if elements is None and length is not None and len(length) == 1 and isinstance(length[0], int):
        elements = [None] * min(length[0], 64)
    dims = (
        None
        if elements is None
        else [context.new_symbolic_dim() if item is None else item for item in elements]
    )
    set_output(context, node, 0, dims, dtype)


def _range(context: Context, node: ir.Node) -> None:
    if (count := _constant_range(node)) is not None:
        set_output(context, node, 0, [count], required(node, 0).dtype)
        return
    start, limit, delta = (context.elements(required(node, index)) for index in range(3))
    length: Size | None = None
    step = constant(context, node.inputs[2])
    if start and limit and delta and step and start[0] is not None and limit[0] is not None and step[0]:
        span = algebra.difference(limit[0], start[0])
        if isinstance(span, int):
            length = max(0, -(-span // step[0]))
        elif step[0] > 0 and algebra.expression(span).is_nonnegative:
            length = algebra.quotient(algebra.total((span, step[0] - 1)), step[0])
    set_output(
        context, node, 0, [context.new_symbolic_dim() if length is None else length], required(node, 0).dtype
    )


def _constant_range(node: ir.Node) -> int | None:
    """The length where all three are constants, of whatever type."""
    tensors = [required(node, index).const_value for index in range(3)]
    if any(tensor is None or tensor.size != 1 for tensor in tensors):
        return None
    start, limit, delta = (float(tensor.numpy().reshape(-1)[0]) for tensor in tensors if tensor is not None)
    return (
        max(0, math.ceil((limit - start) / delta))
        if delta and math.isfinite((limit - start) / delta)
        else None
    )


RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): _arithmetic for name in _ARITHMETIC.split()},
    **{("", name): _logic for name in _LOGIC.split()},
    ("", "PRelu"): _prelu,
    ("", "Where"): _where,
    ("", "Expand"): _expand,
    ("", "Reshape"): _reshape,
    ("", "Tile"): _tile,
    ("", "ConstantOfShape"): _filled,
    ("", "Range"): _range,
}
