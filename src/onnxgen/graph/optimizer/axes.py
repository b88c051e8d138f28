"""Which axes of values are the same by construction, whatever their sizes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    attr,
    constant,
    dims,
    input_at,
    ints,
    maker,
    permutation,
    rank,
    slice_cuts,
)

Axis = tuple[ir.Value, int]
"""A value and one of its axes, counted from the front."""

_SAME_SHAPE = frozenset(
    ("Abs", "Cast", "Clip", "Cos", "Elu", "Erf", "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
     "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "Neg", "Not", "QuickGelu", "RMSNormalization", "Reciprocal", "Relu",
     "Sigmoid", "SimplifiedLayerNormalization", "Sin", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Softmax",
     "Softplus", "Sqrt", "Swish", "Tanh", "BiasGelu")
)  # fmt: skip
_BROADCASTING = frozenset(("Add", "Sub", "Mul", "Div"))


def origins(axis: Axis) -> Iterator[Axis]:
    """The axis itself, then axes of earlier values that have its size."""
    found: Axis | None = axis
    while found is not None:
        yield found
        found = _before(*found)


def elements(value: ir.Value | None) -> list[int | Axis | None] | None:
    """What a vector of sizes consists of: numbers, sizes of axes, and None for what is computed otherwise.

    None where even their count is unknown.
    """
    known = ints(value)
    if known is not None:
        return list(known)
    node = maker(value)
    if node is None or node.domain:
        return _opaque(value)
    match node.op_type:
        case "Shape":
            return _sizes(node)
        case "Concat":
            parts = [elements(item) for item in node.inputs]
            return None if None in parts else [item for part in parts if part is not None for item in part]
        case "Gather":
            return _picked(node)
        case "Slice":
            return _cut(node)
        case "Unsqueeze" | "Squeeze" | "Reshape" | "Cast" | "Identity":
            inner = elements(input_at(node, 0))
            return inner if inner is not None and len(inner) == 1 else None
        case _:
            return _opaque(value)


def _opaque(value: ir.Value | None) -> list[int | Axis | None] | None:
    return [None] if dims(value) in ((), (1,)) else None


def _sizes(node: ir.Node) -> list[int | Axis | None] | None:
    source, known = input_at(node, 0), rank(input_at(node, 0))
    if source is None or known is None:
        return None
    sizes: list[int | Axis | None] = [(source, axis) for axis in range(known)]
    return sizes[attr(node, "start", 0) : attr(node, "end", None)]


def _picked(node: ir.Node) -> list[int | Axis | None] | None:
    inner, indices = elements(input_at(node, 0)), constant(input_at(node, 1))
    if inner is None or indices is None or indices.dtype.kind not in "iu" or indices.ndim > 1:
        return None
    picked = [int(index) for index in indices.reshape(-1)]
    return [inner[index] for index in picked] if all(-len(inner) <= i < len(inner) for i in picked) else None


def _cut(node: ir.Node) -> list[int | Axis | None] | None:
    inner, cuts = elements(input_at(node, 0)), slice_cuts(node)
    if inner is None or cuts is None or set(cuts) != {0} or cuts[0][2] != 1:
        return None
    start, end, _ = cuts[0]
    return inner[start:end]


def _before(value: ir.Value, axis: int) -> Axis | None:
    node, known = maker(value), rank(value)
    first = None if node is None else input_at(node, 0)
    if (
        node is None
        or first is None
        or known is None
        or rank(first) is None
        or value.index() not in (0, None)
    ):
        return _of_split(value, axis)
    op_type = node.op_type
    if op_type in _SAME_SHAPE:
        return first, axis
    if node.domain == MICROSOFT:
        return (first, axis) if op_type == "MultiHeadAttention" and axis < 2 and rank(first) == 3 else None
    if node.domain:
        return None
    match op_type:
        case name if name in _BROADCASTING:
            return _of_sum(node, axis - known)
        case "MatMul":
            return (
                (first, axis)
                if rank(input_at(node, 1)) == 2 and axis < known - 1 and rank(first) == known
                else None
            )
        case "Transpose":
            perm = permutation(node)
            return None if perm is None else (first, perm[axis])
        case "Reshape":
            target = ints(input_at(node, 1))
            copied = target is not None and target[axis] == 0 and not attr(node, "allowzero", 0)
            return (first, axis) if copied else None
        case "Slice":
            cuts = slice_cuts(node)
            return (first, axis) if cuts is not None and axis not in cuts else None
        case "Concat":
            return (first, axis) if attr(node, "axis", 1) not in (axis, axis - known) else None
        case "Gather":
            indices = input_at(node, 1)
            indexed = attr(node, "axis", 0) == 0 and indices is not None and axis < (rank(indices) or 0)
            return (indices, axis) if indexed and indices is not None else None
        case _:
            return _of_split(value, axis)


def _of_split(value: ir.Value, axis: int) -> Axis | None:
    node, known = maker(value), rank(value)
    if node is None or node.op_type != "Split" or node.domain or node.inputs[0] is None or known is None:
        return None
    return None if attr(node, "axis", 0) in (axis, axis - known) else (node.inputs[0], axis)


def _of_sum(node: ir.Node, from_end: int) -> Axis | None:
    """The operand whose axis the other one cannot widen."""
    for value, other in ((node.inputs[0], node.inputs[-1]), (node.inputs[-1], node.inputs[0])):
        shape, widening = dims(value), dims(other)
        if value is None or shape is None or widening is None or len(shape) < -from_end:
            continue
        if len(widening) < -from_end or widening[from_end] == 1:
            return value, len(shape) + from_end
    return None
