"""The last token of a prompt, which some graphs compute the logits of: the rows that a step wants."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.native.lower.lengths import is_for_each
from onnxgen.backends.native.lower.meanings import DeclineError, Meaning, RowsOf, Shape
from onnxgen.backends.native.lower.state import Lowering
from onnxgen.backends.native.plan import Family, RowKind

_SEQUENCE_AXIS = 1


def selected_last(
    lowering: Lowering, node: ir.Node, x: RowsOf, index: Meaning | None, *, axis: int
) -> RowsOf:
    """``Gather`` of the last position along the axis of the sequence."""
    _check(lowering, x, axis)
    last = [s.new - 1 for s in lowering.samples]
    if not is_for_each(index, last) and not is_for_each(index, [-1] * len(last)):
        raise DeclineError("it takes other rows than the last one of a prompt")
    size = _rank(index)
    return _select(lowering, node, x, tuple((1, *(1,) * size, *s[2:]) for s in x.shapes))


def selected_end(lowering: Lowering, node: ir.Node, x: RowsOf, *, axis: int) -> RowsOf:
    """``Slice`` from the last position along the axis of the sequence."""
    _check(lowering, x, axis)
    return _select(lowering, node, x, tuple((1, 1, *s[2:]) for s in x.shapes))


def _select(lowering: Lowering, node: ir.Node, x: RowsOf, shapes: tuple[Shape, ...]) -> RowsOf:
    return lowering.emit(
        node, Family.SELECT, width=x.view.width, reads={"x": x}, shapes=shapes, rows=RowKind.WANTED
    )


def _check(lowering: Lowering, x: RowsOf, axis: int) -> None:
    if x.rows is RowKind.WANTED:
        raise DeclineError("it selects rows from rows that were selected before")
    batched = all(s[:2] == (1, own.new) for s, own in zip(x.shapes, lowering.samples, strict=True))
    if axis % len(x.shapes[0]) != _SEQUENCE_AXIS or not batched or x.last != x.view.width:
        raise DeclineError(
            f"it selects along axis {axis} of {x.shapes[0]}, which is not that of the sequence"
        )


def _rank(index: Meaning | None) -> int:
    array = getattr(index, "array", None)
    if array is None:
        array = getattr(index, "values", (None,))[0]
    return 0 if array is None else int(array.ndim)
