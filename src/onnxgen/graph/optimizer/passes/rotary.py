"""Rotary position embedding written out becomes RotaryEmbedding.

``x * cos + rotate(x) * sin``, where rotate is ``concat(-second half, first half)``. The operators want cosines and sines of half the
width, so both halves must provably be the same: the same value concatenated twice, or a constant table that repeats itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import Shape
from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    attr,
    constant,
    dims,
    dtype,
    input_at,
    ints,
    maker,
    normal_axes,
    rank,
    scalar,
    slice_cuts,
    static_dim,
)
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Var, matches, op

_ROTATED = op("Concat", op("Neg", Var("second")), Var("first"), where=lambda node: len(node.inputs) == 2)
_EMBEDDED = op("Add", op("Mul", Var("x"), Var("cos")), op("Mul", _ROTATED, Var("sin")))

_Halve = Callable[[Edit], ir.Value]
"""Makes the first half, along the last axis, of a value whose halves are the same."""


def rotary(node: ir.Node, context: Context) -> Iterator[Edit]:
    """Of rank 4 ``[batch, heads, seq, head_dim]``: with tables and positions, or with the angles' values."""
    if context.opset() < 15:  # before, Shape has no start and end
        return
    for match in matches(_EMBEDDED, node.outputs[0]):
        x, width = match["x"], static_dim(match["x"], -1)
        if rank(x) != 4 or not width or width % 2 or not match.closed():
            continue
        if _half_of(match["first"]) != (x, 0) or _half_of(match["second"]) != (x, 1):
            continue
        cos, sin = _without_heads(match["cos"]), _without_heads(match["sin"])
        if cos is not None and sin is not None and {static_dim(cos, -1), static_dim(sin, -1)} == {width}:
            yield from _with_tables(node, x, cos, sin, context)
            yield from _with_values(node, x, cos, sin, context)


def _with_tables(
    node: ir.Node, x: ir.Value, cos: ir.Value, sin: ir.Value, context: Context
) -> Iterator[Edit]:
    """Both gathered from tables ``[positions, head_dim]`` by the same positions ``[batch, seq]``."""
    of_cos, of_sin = _gathered(cos), _gathered(sin)
    if of_cos is None or of_sin is None or of_cos[1] is not of_sin[1]:
        return
    positions, shape = of_cos[1], dims(x)
    assert shape is not None
    halves = [_halved(table) for table in (of_cos[0], of_sin[0])]
    known = None not in (shape[0], shape[2]) and dims(positions) == (shape[0], shape[2])
    if None in halves or not known or dtype(positions) is not ir.DataType.INT64:
        return
    for domain in ("", MICROSOFT):
        if domain or context.opset() >= 23:
            edit = Edit(context, node, rotary_embeddings_fused=1)
            tables = [half(edit) for half in halves if half is not None]
            inputs = (x, positions, *tables) if domain else (x, *tables, positions)
            yield edit.replace(node.outputs[0], edit.op("RotaryEmbedding", *inputs, domain=domain))


def _with_values(
    node: ir.Node, x: ir.Value, cos: ir.Value, sin: ir.Value, context: Context
) -> Iterator[Edit]:
    """Both computed, ``[batch, seq, head_dim]``."""
    halves, shape = [_halved(cos), _halved(sin)], dims(x)
    assert shape is not None
    wanted = (shape[0], shape[2])
    # One row of angles for all sequences, or one for each.
    forms = {(dims(value) or ())[:-1] for value in (cos, sin)}
    if None in halves or None in wanted or len(forms) != 1 or not forms <= {wanted, (1, wanted[1])}:
        return
    spread = forms != {wanted}
    for is_standard in (True, False):
        if is_standard and context.opset() < 23:
            continue
        edit = Edit(context, node, rotary_embeddings_fused=1)
        values = [half(edit) for half in halves if half is not None]
        if is_standard:
            if spread:
                values = [_spread(edit, value, x, (*wanted, static_dim(value, -1))) for value in values]
            yield edit.replace(node.outputs[0], edit.op("RotaryEmbedding", x, *values))
        else:
            tables = [_as_table(edit, value) for value in values]
            positions = _row_numbers(edit, values[0])
            positions = _spread(edit, positions, x, wanted) if spread else positions
            y = edit.op("RotaryEmbedding", x, positions, *tables, domain=MICROSOFT)
            yield edit.replace(node.outputs[0], y)


def _as_table(edit: Edit, value: ir.Value) -> ir.Value:
    """``[batch, seq, width]`` as ``[batch * seq, width]``."""
    width = static_dim(value, -1) or 0
    shape = (None, width)
    return edit.op("Reshape", value, np.asarray((-1, width)), dtype=dtype(value), shape=shape)


def _row_numbers(edit: Edit, value: ir.Value) -> ir.Value:
    """``[batch, seq]``: which row of that table is whose."""
    integers = ir.DataType.INT64
    sizes = edit.op("Shape", value, end=2, dtype=integers, shape=(2,))
    count = edit.op("ReduceProd", sizes, keepdims=0, dtype=integers, shape=())
    numbers = edit.op("Range", np.asarray(0), count, np.asarray(1), dtype=integers, shape=(None,))
    return edit.op("Reshape", numbers, sizes, dtype=integers, shape=(dims(value) or ())[:2])


def _spread(edit: Edit, value: ir.Value, x: ir.Value, shape: Shape) -> ir.Value:
    """The value once for each sequence of the batch of x."""
    batch = edit.op("Shape", x, end=1, dtype=ir.DataType.INT64, shape=(1,))
    ones = np.ones(len(shape) - 1, np.int64)
    target = edit.op("Concat", batch, ones, axis=0, dtype=ir.DataType.INT64, shape=(len(shape),))
    return edit.op("Expand", value, target, dtype=dtype(value), shape=shape)


def _half_of(value: ir.Value) -> tuple[ir.Value, int] | None:
    """What the value is the first (0) or second (1) half of, along the last of four axes."""
    node = maker(value)
    x = None if node is None else input_at(node, 0)
    width = static_dim(x, -1)
    if node is None or node.domain or x is None or not width:
        return None
    half = width // 2
    if node.op_type == "Slice":
        cut = (slice_cuts(node) or {}).get(3)
        if len(slice_cuts(node) or {}) != 1 or cut is None or cut[2] != 1:
            return None
        return (x, 0) if cut[:2] == (0, half) else (x, 1) if cut[0] == half and cut[1] >= width else None
    if node.op_type == "Split" and len(node.outputs) == 2 and attr(node, "axis", 0) in (-1, 3):
        index = value.index()
        return (x, index) if index is not None and static_dim(value, -1) == half else None
    return None


def _without_heads(value: ir.Value) -> ir.Value | None:
    """The angles ``[batch, seq, head_dim]`` that an Unsqueeze broadcasts over the heads."""
    node = maker(value)
    if node is None or node.op_type != "Unsqueeze" or node.domain or rank(value) != 4:
        return None
    axes = ints(input_at(node, 1))
    return input_at(node, 0) if axes is not None and normal_axes(axes, 4) == (1,) else None


def _gathered(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The table of rank 2 and the positions that the rows were gathered by."""
    node = maker(value)
    if node is None or node.op_type != "Gather" or node.domain or attr(node, "axis", 0) != 0:
        return None
    table, positions = node.inputs
    return (table, positions) if table is not None and positions is not None and rank(table) == 2 else None


def _halved(value: ir.Value) -> _Halve | None:
    """How to make the first half; None where the halves are not known to be the same."""
    array = constant(value)
    if array is not None:
        first, second = (
            np.split(array, 2, axis=-1) if array.ndim and array.shape[-1] % 2 == 0 else (array, None)
        )
        same = second is not None and first.tobytes() == second.tobytes()
        return (
            (lambda edit: edit.constant(np.ascontiguousarray(first), value.name or "half")) if same else None
        )
    node, known = maker(value), rank(value)
    if node is None or node.domain or known is None:
        return None
    if node.op_type == "Concat" and attr(node, "axis") in (-1, known - 1) and len(node.inputs) == 2:
        first_half = node.inputs[0]
        return (lambda _: first_half) if first_half is not None and first_half is node.inputs[1] else None
    inner = input_at(node, 0)
    if inner is None or not _is_along_rows(node, known):
        return None
    of_inner = _halved(inner)
    if of_inner is None:
        return None

    def halve(edit: Edit) -> ir.Value:
        sizes = dims(value)
        shape = None if sizes is None else (*sizes[:-1], (static_dim(value, -1) or 0) // 2)
        attributes = {name: attr(node, name) for name in node.attributes}
        (half,) = edit.ops(node.op_type, [of_inner(edit), *node.inputs[1:]], attributes)
        half.type, half.shape = value.type, None if shape is None else ir.Shape(shape)
        return half

    return halve


def _is_along_rows(node: ir.Node, known: int) -> bool:
    """Whether the node treats every column of its first input alike."""
    match node.op_type:
        case "Cos" | "Sin" | "Cast" | "Identity":
            return True
        case "Mul":
            return scalar(input_at(node, 1)) is not None and (rank(input_at(node, 1)) or 0) <= known
        case "Gather":
            return attr(node, "axis", 0) == 0 and (rank(input_at(node, 0)) or 0) >= 2
        case "Slice":
            cuts = slice_cuts(node) or dict.fromkeys(ints(input_at(node, 3)) or (-1,), (0, 0, 1))
            return not {known - 1, -1} & set(cuts)
        case _:
            return False


ROTARY = rewriting("rotary", OptimizationLevel.EXTENDED, {"Add": rotary})
