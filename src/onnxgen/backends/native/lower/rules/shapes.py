"""Operators that keep the elements: new shapes of the same rows, and some of the columns."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import (
    CacheState,
    Constant,
    DeclineError,
    Known,
    Meaning,
    RowsOf,
    Shape,
    TokenIds,
)
from onnxgen.backends.native.lower.rule import Inputs, RuleTable, at
from onnxgen.backends.native.lower.rules.selection import selected_end
from onnxgen.backends.native.lower.state import Lowering, attribute, describe, integer, rows, whole_rows
from onnxgen.backends.native.plan import Family, View

TABLE = RuleTable()


@TABLE.operator("Shape")
def shape(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The shape, which follows from lengths."""
    x = at(inputs, 0)
    if not isinstance(x, RowsOf | TokenIds | CacheState):
        raise DeclineError(f"the shape of {describe(x)}")
    start, end = integer(node, "start"), attribute(node, "end")
    assert end is None or isinstance(end, int)
    return [Known(tuple(np.array(s[start:end], np.int64) for s in x.shapes))]


@TABLE.operator("Reshape")
def reshape(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Any shape that keeps the tokens apart: rows in pieces (heads), or whole again."""
    x, wanted = rows(at(inputs, 0), "the input"), at(inputs, 1)
    sizes = (
        [wanted.array] * len(x.shapes) if isinstance(wanted, Constant)
        else list(wanted.values) if isinstance(wanted, Known)
        else None
    )  # fmt: skip
    if sizes is None:
        raise DeclineError(f"the new shape is {describe(wanted)}")
    zero = bool(integer(node, "allowzero"))
    return [_as(x, tuple(_reshaped(s, n.tolist(), zero) for s, n in zip(x.shapes, sizes, strict=True)))]


@TABLE.operator("Squeeze")
def squeeze(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Without axes of size 1."""
    x, axes = rows(at(inputs, 0), "the input"), _axes(at(inputs, 1))
    found: list[Shape] = []
    for old in x.shapes:
        gone = {a % len(old) for a in axes} if axes is not None else {i for i, d in enumerate(old) if d == 1}
        found.append(tuple(d for i, d in enumerate(old) if i not in gone))
    return [_as(x, tuple(found))]


@TABLE.operator("Unsqueeze")
def unsqueeze(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """With more axes of size 1."""
    x, axes = rows(at(inputs, 0), "the input"), _axes(at(inputs, 1))
    if axes is None:
        raise DeclineError("its axes are not constant")
    found: list[Shape] = []
    for old in x.shapes:
        rank, sizes = len(old) + len(axes), iter(old)
        new = {a % rank for a in axes}
        found.append(tuple(1 if i in new else next(sizes) for i in range(rank)))
    return [_as(x, tuple(found))]


@TABLE.operator("Split")
def split(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Columns."""
    x = rows(at(inputs, 0), "the input")
    if integer(node, "axis") % len(x.shapes[0]) != len(x.shapes[0]) - 1 or x.last != x.view.width:
        raise DeclineError(
            f"it splits along axis {integer(node, 'axis')} of {x.shapes[0]}, not rows by columns"
        )
    sizes, wanted = at(inputs, 1), len(node.outputs)
    if isinstance(sizes, Constant):
        widths = [int(s) for s in sizes.array]
    elif sizes is None and x.last % wanted == 0:
        widths = [x.last // wanted] * wanted
    else:
        raise DeclineError(f"it splits {x.last} columns into {wanted} parts of {describe(sizes)}")
    starts = np.cumsum([0, *widths]).tolist()
    return [_columns(x, start, width) for start, width in zip(starts, widths, strict=False)]


@TABLE.operator("Concat")
def concat(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Columns, side by side."""
    parts = [whole_rows(x, f"input {i}") for i, x in enumerate(inputs)]
    first, axis = parts[0], integer(node, "axis")
    if axis % len(first.shapes[0]) != len(first.shapes[0]) - 1:
        raise DeclineError(f"it joins along axis {axis} of {first.shapes[0]}, not rows by columns")
    for part in parts:
        if part.rows is not first.rows or any(
            own[:-1] != other[:-1] for own, other in zip(part.shapes, first.shapes, strict=True)
        ):
            raise DeclineError(f"it joins {first.shapes[0]} and {part.shapes[0]}, which have other rows")
    reads = {f"x{i}": part for i, part in enumerate(parts)}
    return [lowering.emit(node, Family.JOIN, first, width=sum(part.last for part in parts), reads=reads)]


@TABLE.operator("Slice")
def slice_(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Columns, or the last token."""
    x = rows(at(inputs, 0), "the input")
    starts, ends, axes, steps = (at(inputs, i) for i in range(1, 5))
    start, end = _only(starts), _only(ends)
    axis = 0 if axes is None else _only(axes)
    if start is None or end is None or axis is None or (steps is not None and _only(steps) != 1):
        raise DeclineError("it cuts along several axes, in steps, or by what is not constant")
    axis %= len(x.shapes[0])
    if axis == len(x.shapes[0]) - 1 and x.last == x.view.width:
        first, behind, _ = slice(start, end).indices(x.last)
        return [_columns(x, first, behind - first)]
    if start == -1 and end >= max(s.new for s in lowering.samples):
        return [selected_end(lowering, node, x, axis=axis)]
    raise DeclineError(f"it cuts {start}:{end} along axis {axis} of {x.shapes[0]}")


def _as(x: RowsOf, shapes: tuple[Shape, ...]) -> RowsOf:
    last = {s[-1] if s else 1 for s in shapes}
    if len(last) != 1 or x.view.width % next(iter(last)):
        raise DeclineError(f"{x.shapes[0]} becomes {shapes[0]}, which mixes tokens")
    return RowsOf(x.view, x.rows, shapes)


def _reshaped(old: Shape, sizes: list[int], allow_zero: bool) -> Shape:
    new = [old[i] if s == 0 and not allow_zero and i < len(old) else s for i, s in enumerate(sizes)]
    if new.count(-1) > 1:
        raise DeclineError(f"{old} to {sizes}")
    if -1 in new:
        rest = math.prod(s for s in new if s != -1)
        if rest == 0 or math.prod(old) % rest:
            raise DeclineError(f"{old} does not fit {sizes}")
        new[new.index(-1)] = math.prod(old) // rest
    if math.prod(new) != math.prod(old):
        raise DeclineError(f"{old} does not fit {sizes}")
    return tuple(new)


def _columns(x: RowsOf, start: int, width: int) -> RowsOf:
    if width < 1 or start + width > x.last:
        raise DeclineError(f"columns {start} to {start + width} of {x.last}")
    view = View(x.view.buffer, x.view.offset + start, width)
    return RowsOf(view, x.rows, tuple((*s[:-1], width) for s in x.shapes))


def _axes(meaning: Meaning | None) -> list[int] | None:
    return [int(a) for a in meaning.array.reshape(-1)] if isinstance(meaning, Constant) else None


def _only(meaning: Meaning | None) -> int | None:
    axes = _axes(meaning)
    return axes[0] if axes is not None and len(axes) == 1 else None
