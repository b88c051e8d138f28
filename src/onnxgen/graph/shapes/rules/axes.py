"""Operators that take, add or remove axes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axes_of,
    axis_in,
    constant,
    fresh,
    input_at,
    integer,
    integers,
    required,
    set_output,
    sizes,
)

_REDUCTIONS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceSumSquare"""


def _reduce(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, keep = sizes(data), integer(node, "keepdims", 1)
    set_output(context, node, 0, None, data.dtype)
    axes, given = axes_of(context, node), input_at(node, 1)
    if shape is None:
        if axes is None and given is None and not keep and not integer(node, "noop_with_empty_axes", 0):
            set_output(context, node, 0, (), None)
        return
    if axes is None and given is not None:
        _reduce_unknown(context, node, shape, given, keep=bool(keep))
        return
    if not axes and integer(node, "noop_with_empty_axes", 0):
        dims = shape
    else:
        chosen = {axis_in(axis, len(shape)) for axis in axes or range(len(shape))}
        dims = [1 if at in chosen else dim for at, dim in enumerate(shape) if keep or at not in chosen]
    set_output(context, node, 0, dims, data.dtype)


def _reduce_unknown(
    context: Context, node: ir.Node, shape: list[Size], axes: ir.Value, *, keep: bool
) -> None:
    """Of axes that only the run knows: the rank, where it follows from their number."""
    count = sizes(axes)
    if keep:
        set_output(context, node, 0, [1 if dim == 1 else context.new_symbolic_dim() for dim in shape], None)
    elif count is not None and len(count) == 1 and isinstance(count[0], int) and 0 < count[0] <= len(shape):
        set_output(context, node, 0, fresh(context, len(shape) - count[0]), None)


def _squeeze(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, axes, given = sizes(data), axes_of(context, node), input_at(node, 1)
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    if axes is not None:
        gone = {axis_in(axis, len(shape)) for axis in axes}
        set_output(context, node, 0, [dim for at, dim in enumerate(shape) if at not in gone], None)
    elif given is not None:
        count = sizes(given)
        if count is not None and len(count) == 1 and isinstance(count[0], int) and count[0] <= len(shape):
            set_output(context, node, 0, fresh(context, len(shape) - count[0]), None)
    elif all(isinstance(dim, int) for dim in shape):  # a symbol may be 1 or not: the rank depends on it
        set_output(context, node, 0, [dim for dim in shape if dim != 1], None)


def _unsqueeze(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, axes = sizes(data), axes_of(context, node)
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    if axes is None:
        count = sizes(input_at(node, 1))
        if count is not None and len(count) == 1 and isinstance(count[0], int) and count[0] <= 64:
            set_output(context, node, 0, fresh(context, len(shape) + count[0]), None)
        return
    rank = len(shape) + len(axes)
    new = {axis_in(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise InvalidGraphError(f"axes {axes} name one axis twice")
    old = iter(shape)
    set_output(context, node, 0, [1 if at in new else next(old) for at in range(rank)], None)


def _split(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, given = sizes(data), input_at(node, 1)
    for at in range(len(node.outputs)):
        set_output(context, node, at, None, data.dtype)
    if shape is None:
        return
    axis = axis_in(integer(node, "axis", 0), len(shape))
    parts: list[Size] | None = None
    if given is not None:
        elements = context.elements(given)
        parts = (
            None if elements is None else [context.new_symbolic_dim() if e is None else e for e in elements]
        )
    elif (lengths := integers(node, "split")) is not None:
        parts = list(lengths)
    else:
        parts = _equal_parts(shape[axis], len(node.outputs), must_be_equal=context.opset < 18)
    parts = parts or fresh(context, len(node.outputs))
    for at, part in enumerate(parts[: len(node.outputs)]):
        set_output(context, node, at, [*shape[:axis], part, *shape[axis + 1 :]], None)


def _equal_parts(size: Size, count: int, *, must_be_equal: bool) -> list[Size]:
    """Parts of equal size, rounded up, the last ones with what is left."""
    exact = algebra.quotient(size, count)
    if must_be_equal or algebra.same(algebra.product((exact, count)), size):
        return [exact] * count
    part = algebra.quotient(algebra.total((size, count - 1)), count)
    left = [algebra.difference(size, algebra.product((part, at))) for at in range(count)]
    return [algebra.largest(algebra.smallest(part, rest), 0) for rest in left]


def _unique(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, length = sizes(data), context.new_symbolic_dim()
    if "axis" not in node.attributes:
        set_output(context, node, 0, [length], data.dtype)
        everything: list[Size] | None = None if shape is None else [algebra.product(shape)]
    else:
        axis = None if shape is None else axis_in(integer(node, "axis", 0), len(shape))
        dims = None if shape is None or axis is None else [*shape[:axis], length, *shape[axis + 1 :]]
        set_output(context, node, 0, dims, data.dtype)
        everything = None if shape is None or axis is None else [shape[axis]]
    set_output(context, node, 1, [length], ir.DataType.INT64)
    set_output(context, node, 2, everything or fresh(context, 1), ir.DataType.INT64)
    set_output(context, node, 3, [length], ir.DataType.INT64)


def _concat(context: Context, node: ir.Node) -> None:
    dtype = next((value.dtype for value in node.inputs if value is not None and value.dtype), None)
    set_output(context, node, 0, None, dtype)
    shapes = [sizes(value) for value in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return
    rank = len(known[0])
    if any(len(shape) != rank for shape in known):
        raise InvalidGraphError(f"inputs have ranks {sorted({len(shape) for shape in known})}")
    axis = axis_in(integer(node, "axis", 1), rank)
    dims = [_agreed([shape[at] for shape in known]) for at in range(rank)]
    dims[axis] = (
        algebra.total(shape[axis] for shape in known)
        if len(known) == len(shapes)
        else context.new_symbolic_dim()
    )
    set_output(context, node, 0, dims, dtype)


def _agreed(dims: list[Size]) -> Size:
    """One of dimensions that must be equal: a number if there is one."""
    return next((dim for dim in dims if isinstance(dim, int)), dims[0])


def _top_k(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, elements = sizes(data), context.elements(input_at(node, 1))
    count: Size | None = (
        integer(node, "k", -1) if "k" in node.attributes else elements[0] if elements else None
    )
    if shape is not None:
        axis = axis_in(integer(node, "axis", -1), len(shape))
        shape[axis] = context.new_symbolic_dim() if count is None else count
    set_output(context, node, 0, shape, data.dtype)
    set_output(context, node, 1, shape, ir.DataType.INT64)


def _one_hot(context: Context, node: ir.Node) -> None:
    indices, values = sizes(required(node, 0)), required(node, 2)
    depth = _whole_number(context, input_at(node, 1))
    if indices is not None:
        axis = axis_in(integer(node, "axis", -1), len(indices) + 1)
        indices.insert(axis, context.new_symbolic_dim() if depth is None else depth)
    set_output(context, node, 0, indices, values.dtype)


def _whole_number(context: Context, value: ir.Value | None) -> int | None:
    """A constant of any numeric type."""
    found = constant(context, value)
    if found is None and value is not None and value.const_value is not None and value.const_value.size == 1:
        return int(value.const_value.numpy().reshape(-1)[0])
    return found[0] if found else None


RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): _reduce for name in _REDUCTIONS.split()},
    ("", "Squeeze"): _squeeze,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Split"): _split,
    ("", "Unique"): _unique,
    ("", "Concat"): _concat,
    ("", "TopK"): _top_k,
    ("", "OneHot"): _one_hot,
}
