"""Reshape, Squeeze, Unsqueeze and Flatten over one another become one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, input_at, ints, maker, normal_axes, rank
from onnxgen.graph.optimizer.level import OptimizationLevel

_FORMS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten"))


def reshape(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Reshape(f(x), shape)`` as ``Reshape(x, shape)``, where f only changes the form."""
    inner, target = _form_under(node), ints(input_at(node, 1))
    if inner is None or target is None or inner.inputs[0] is None:
        return
    allow_zero = attr(node, "allowzero", 0)
    if 0 in target and not allow_zero:
        # 0 copies a size of what lies between; it must be known as a number, or be copied in turn.
        middle = (
            ints(input_at(inner, 1))
            if inner.op_type == "Reshape" and not attr(inner, "allowzero", 0)
            else None
        )
        if middle is None or len(middle) < len(target):
            return
        pairs = list(zip(target, middle, strict=False))
        if any(new == 0 and old == -1 for new, old in pairs):
            return
        target = tuple(old if new == 0 else new for new, old in pairs)
    edit = Edit(context, node, reshapes_merged=1)
    shape = edit.constant(np.asarray(target, np.int64), "shape")
    yield edit.replace(
        node.outputs[0], edit.op("Reshape", inner.inputs[0], shape, allowzero=allow_zero or None)
    )


def squeeze(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Squeeze(Unsqueeze(x))`` on the same axes as ``x``; two Squeezes as one."""
    yield from _merged(node, context)


def unsqueeze(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Unsqueeze(Squeeze(x))`` on the same axes as ``x``; two Unsqueezes as one."""
    yield from _merged(node, context)


def _merged(node: ir.Node, context: Context) -> Iterator[Edit]:
    inner = _form_under(node)
    if inner is None or inner.op_type not in ("Squeeze", "Unsqueeze"):
        return
    x, outer_axes, inner_axes = inner.inputs[0], _axes(node, context), _axes(inner, context)
    if x is None or outer_axes is None or inner_axes is None:
        return
    if inner.op_type != node.op_type:
        if sorted(outer_axes) == sorted(inner_axes):
            yield Edit(context, node, squeezes_there_and_back_removed=1).replace(node.outputs[0], x)
        return
    first, second = (inner_axes, outer_axes) if node.op_type == "Squeeze" else (outer_axes, inner_axes)
    # Axes of the second are counted among those that the first leaves.
    others = [axis for axis in range(max((*first, *second)) + len(first) + 1) if axis not in first]
    axes = tuple(sorted((*first, *(others[axis] for axis in second))))
    edit = Edit(context, node, **{f"{node.op_type}s_merged": 1})
    if context.opset() < 13:
        yield edit.replace(node.outputs[0], edit.op(node.op_type, x, axes=axes))
    else:
        merged = edit.constant(np.asarray(axes, np.int64), "axes")
        yield edit.replace(node.outputs[0], edit.op(node.op_type, x, merged))


def _axes(node: ir.Node, context: Context) -> tuple[int, ...] | None:
    """Axes from the front; None where they or the rank that they need are unknown."""
    axes = attr(node, "axes") if context.opset() < 13 else ints(input_at(node, 1))
    if axes is None or all(axis >= 0 for axis in axes):
        return axes
    full = rank(node.inputs[0])
    if full is None:
        return None
    return normal_axes(axes, full + len(axes) if node.op_type == "Unsqueeze" else full)


def _form_under(node: ir.Node) -> ir.Node | None:
    inner = maker(input_at(node, 0), node)
    return inner if inner is not None and inner.op_type in _FORMS and not inner.domain else None


RESHAPES = rewriting(
    "reshapes",
    OptimizationLevel.BASIC,
    {"Reshape": reshape, "Squeeze": squeeze, "Unsqueeze": unsqueeze},
)
