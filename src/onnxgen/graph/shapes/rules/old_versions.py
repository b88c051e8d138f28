"""Versions of operators before they took their present form."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.slicing import slice_with_attributes
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    constant,
    integers,
    required,
    set_like,
    set_output,
    sizes,
)

_BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Pow"))
_LOGIC = frozenset(("And", "Or", "Xor", "Equal", "Less", "Greater"))


def old_rule(op_type: str, opset: int) -> Rule | None:
    """The rule of an operator of the standard whose form at that opset is not the one that `RULES` knows."""
    if opset < 7 and op_type in _BINARY:
        return _like_first
    if opset < 7 and op_type in _LOGIC:
        return _like_first_as_bool
    if opset < 7 and op_type == "Dropout":
        return _dropout
    if opset < 5 and op_type == "Reshape":
        return _reshape
    if opset < 6 and op_type == "Tile":
        return _tile
    if opset < 10 and op_type == "Slice":
        return slice_with_attributes
    return None


def _like_first(context: Context, node: ir.Node) -> None:
    """Before opset 7 only the second operand was broadcast."""
    set_like(context, node, 0, required(node, 0))


def _like_first_as_bool(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, sizes(required(node, 0)), ir.DataType.BOOL)


def _dropout(context: Context, node: ir.Node) -> None:
    """With a mask of the data's own type."""
    set_like(context, node, 0, required(node, 0))
    set_like(context, node, 1, required(node, 0))


def _reshape(context: Context, node: ir.Node) -> None:
    """With the shape in an attribute."""
    data, wanted = required(node, 0), integers(node, "shape") or []
    shape = sizes(data)
    set_output(context, node, 0, None, data.dtype)
    dims: list[Size | None] = [
        (shape[at] if shape is not None and at < len(shape) else None)
        if dim == 0
        else None
        if dim == -1
        else dim
        for at, dim in enumerate(wanted)
    ]
    unknown = [at for at, dim in enumerate(dims) if dim is None]
    if len(unknown) == 1 and shape is not None:
        rest = algebra.product(dim for dim in dims if dim is not None)
        dims[unknown[0]] = algebra.quotient(algebra.product(shape), rest)
    set_output(context, node, 0, [context.new_symbolic_dim() if d is None else d for d in dims], None)


def _tile(context: Context, node: ir.Node) -> None:
    """Along one axis; how often, and which axis, are scalars."""
    data = required(node, 0)
    shape, times, axis = (
        sizes(data),
        constant(context, required(node, 1)),
        constant(context, required(node, 2)),
    )
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    if axis:
        at = axis_in(axis[0], len(shape))
        shape[at] = algebra.product((shape[at], times[0])) if times else context.new_symbolic_dim()
    else:
        shape = [context.new_symbolic_dim() for _ in shape]
    set_output(context, node, 0, shape, None)
