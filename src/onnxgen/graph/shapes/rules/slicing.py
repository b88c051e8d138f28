"""Slice: parts of axes, between positions that may count from the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context, Element
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    constant,
    input_at,
    integers,
    required,
    set_output,
    sizes,
)

_FAR = 2**31 - 1
"""Exporters write the end of an axis, whatever its size, as the largest number of 32 or 64 bits."""


def slice_with_attributes(context: Context, node: ir.Node) -> None:
    """Slice before opset 10."""
    starts, ends = integers(node, "starts") or [], integers(node, "ends") or []
    _slice(context, node, starts, ends, integers(node, "axes"), None)


def _slice_with_inputs(context: Context, node: ir.Node) -> None:
    starts, ends = context.elements(required(node, 1)), context.elements(required(node, 2))
    axes, steps = constant(context, input_at(node, 3)), constant(context, input_at(node, 4))
    data = required(node, 0)
    shape = sizes(data)
    known = not any(input_at(node, at) is not None and got is None for at, got in ((3, axes), (4, steps)))
    if known and (starts is not None or ends is not None):
        count = len(starts if starts is not None else ends or ())
        unknown: Sequence[Element] = [None] * count
        _slice(
            context,
            node,
            unknown if starts is None else starts,
            unknown if ends is None else ends,
            axes,
            steps,
        )
        return
    cut = (
        {axis_in(axis, len(shape)) for axis in axes or range(len(shape))} if shape is not None else set[int]()
    )
    dims = (
        None
        if shape is None
        else [context.new_symbolic_dim() if at in cut else dim for at, dim in enumerate(shape)]
    )
    set_output(context, node, 0, dims, data.dtype)


def _slice(
    context: Context,
    node: ir.Node,
    starts: Sequence[Element],
    ends: Sequence[Element],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> None:
    data = required(node, 0)
    shape = sizes(data)
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = axis_in(axis, len(shape))
        size = None if start is None or end is None else extent(shape[at], start, end, step)
        shape[at] = context.new_symbolic_dim() if size is None else size
    set_output(context, node, 0, shape, None)


def extent(size: Size, start: Size, end: Size, step: int) -> Size | None:
    """How many elements of an axis lie between two positions; None where it depends on a sign that is not known.

    Raises:
        InvalidGraphError: ``step`` is 0.
    """
    if step == 0:
        raise InvalidGraphError("a step of a slice is 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(range(size)[start:end:step])
    # from is where the slice begins, to is behind its last element in the direction of the step
    lowest, highest = (0, size) if step > 0 else (-1, algebra.difference(size, 1))
    begin, stop = _position(size, start, lowest, highest), _position(size, end, lowest, highest)
    if begin is None or stop is None:
        return None
    span = algebra.difference(stop, begin) if step > 0 else algebra.difference(begin, stop)
    count = algebra.quotient(algebra.total((span, abs(step) - 1)), abs(step))
    return algebra.largest(count, 0)


def _position(size: Size, at: Size, lowest: Size, highest: Size) -> Size | None:
    if isinstance(at, int) and at >= _FAR:
        return highest
    if isinstance(at, int) and at <= -_FAR:
        return lowest
    value = algebra.expression(at)
    if value.is_nonnegative:
        return algebra.smallest(at, highest)
    if value.is_negative:
        return algebra.largest(algebra.total((size, at)), lowest)
    return None


RULES: Mapping[tuple[str, str], Rule] = {("", "Slice"): _slice_with_inputs}
