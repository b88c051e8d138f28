"""Nodes that return their input as it is go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    attr,
    constant,
    dims,
    dtype,
    input_at,
    ints,
    rank,
    static_dim,
    static_dims,
    wants,
)
from onnxgen.graph.optimizer.level import OptimizationLevel

_INT64_MAX = 2**63 - 1


def _identity(node: ir.Node, context: Context) -> bool:
    return True


def _dropout(node: ir.Node, context: Context) -> bool:
    if wants(node, 1):
        return False
    if context.opset() < 7:
        return attr(node, "is_test", 0) != 0
    training = constant(input_at(node, 2))
    return input_at(node, 2) is None or (training is not None and not training.any())


def _cast(node: ir.Node, context: Context) -> bool:
    return dtype(node.inputs[0]) == ir.DataType(attr(node, "to"))


def _cast_like(node: ir.Node, context: Context) -> bool:
    return dtype(node.inputs[0]) is not None and dtype(node.inputs[0]) == dtype(node.inputs[1])


def _same_static_shape(node: ir.Node, context: Context) -> bool:
    known = static_dims(node.inputs[0])
    return known is not None and known == static_dims(node.outputs[0])


def _reshape(node: ir.Node, context: Context) -> bool:
    if _same_static_shape(node, context):
        return True
    before, target = dims(node.inputs[0]), ints(input_at(node, 1))
    if before is None or target is None or len(before) != len(target) or attr(node, "allowzero", 0):
        return False
    # One size may be open (-1): where all others stay, it stays too, unless one of them may be zero.
    kept = [new == 0 or new == old for old, new in zip(before, target, strict=True)]
    open_ = [new == -1 for new in target]
    if not any(open_):
        return all(kept)
    others_positive = all(isinstance(d, int) and d > 0 for d, o in zip(before, open_, strict=True) if not o)
    return others_positive and open_.count(True) == 1 and kept.count(False) == 1


def _expand(node: ir.Node, context: Context) -> bool:
    target, rank_ = ints(input_at(node, 1)), rank(node.inputs[0])
    ones = target is not None and rank_ is not None and len(target) <= rank_ and set(target) <= {1}
    return ones or _same_static_shape(node, context)


def _transpose(node: ir.Node, context: Context) -> bool:
    perm = attr(node, "perm")
    return perm is not None and perm == tuple(range(len(perm)))


def _pad(node: ir.Node, context: Context) -> bool:
    pads = attr(node, "pads", attr(node, "paddings")) if context.opset() < 11 else ints(input_at(node, 1))
    return pads is not None and not any(pads)


def _slice(node: ir.Node, context: Context) -> bool:
    if context.opset() < 10:
        starts, ends, axes, steps = attr(node, "starts"), attr(node, "ends"), attr(node, "axes"), None
    else:
        starts, ends, axes, steps = (ints(input_at(node, i)) for i in range(1, 5))
        if (axes is None and input_at(node, 3) is not None) or (
            steps is None and input_at(node, 4) is not None
        ):
            return False
    if starts is None or ends is None:
        return False
    axes = tuple(range(len(starts))) if axes is None else axes
    if any(step != 1 for step in steps or ()):
        return False
    return all(
        start == 0 and (end == _INT64_MAX or _reaches_end(node.inputs[0], axis, end))
        for start, end, axis in zip(starts, ends, axes, strict=True)
    )


def _reaches_end(value: ir.Value | None, axis: int, end: int) -> bool:
    size = static_dim(value, axis)
    return size is not None and end >= size


def _one_input(node: ir.Node, context: Context) -> bool:
    return len(node.inputs) == 1


def _one_output(node: ir.Node, context: Context) -> bool:
    return len(node.outputs) == 1


def _flatten(node: ir.Node, context: Context) -> bool:
    return rank(node.inputs[0]) == 2 and attr(node, "axis", 1) in (1, -1)


def _tile(node: ir.Node, context: Context) -> bool:
    repeats = ints(input_at(node, 1))
    return context.opset() >= 6 and repeats is not None and set(repeats) <= {1}


NO_OPS: dict[str, Callable[[ir.Node, Context], bool]] = {
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "Concat": _one_input,
    "Sum": _one_input,
    "Max": _one_input,
    "Min": _one_input,
    "Mean": _one_input,
    "Split": _one_output,
    "Flatten": _flatten,
    "Tile": _tile,
    "Squeeze": _same_static_shape,
    "Unsqueeze": _same_static_shape,
}
"""When a node returns its first input."""


def remove(node: ir.Node, context: Context) -> Iterator[Edit]:
    """Users of the node use its first input."""
    if node.inputs and node.inputs[0] is not None and NO_OPS[node.op_type](node, context):
        yield Edit(context, node, **{f"{node.op_type}_without_effect_removed": 1}).replace(
            node.outputs[0], node.inputs[0]
        )


REMOVE_NO_OPS = rewriting("no_ops", OptimizationLevel.BASIC, dict.fromkeys(NO_OPS, remove))
