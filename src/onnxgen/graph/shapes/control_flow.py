"""If, Loop and Scan: types go into the inner graphs and come out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.types import DECLARED_TYPE
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import axis_in, input_at, integer, integers, set_output, sizes

Infer = Callable[[ir.Graph], None]
_ROUNDS = 4
"""A carried value's shape settles in three: dimensions that change, then the rank."""


def infer_control_flow(context: Context, node: ir.Node, infer: Infer, *, settle: bool) -> None:
    """Infer a node's graphs with ``infer``, and the node's outputs from theirs.

    Args:
        context: What is known.
        node: If, Loop or Scan.
        infer: Infers a graph whose inputs have their types.
        settle: Whether to infer a body several times, until the shapes that it carries from turn to turn are known;
            False takes them for unknown at once.
    """
    if node.op_type == "If":
        _if(context, node, infer)
    elif node.op_type == "Loop":
        _loop(context, node, infer, settle=settle)
    else:
        _scan(context, node, infer, settle=settle)


def _if(context: Context, node: ir.Node, infer: Infer) -> None:
    branches = [_graph(node, "then_branch"), _graph(node, "else_branch")]
    for branch in branches:
        infer(branch)
        if len(branch.outputs) != len(node.outputs):
            raise InvalidGraphError(
                f"a branch has {len(branch.outputs)} outputs, the node has {len(node.outputs)}"
            )
    for out, one, other in zip(node.outputs, branches[0].outputs, branches[1].outputs, strict=True):
        out.type = one.type or other.type
        if one.type is not None and other.type is not None and one.type != other.type:
            raise InvalidGraphError(f"branches give {one.type} and {other.type} as output {out.name!r}")
        out.shape = _common(context, one.shape, other.shape)
        if DECLARED_TYPE in one.meta:
            out.meta.setdefault(DECLARED_TYPE, one.meta[DECLARED_TYPE])


def _common(context: Context, one: ir.Shape | None, other: ir.Shape | None) -> ir.Shape | None:
    """A shape that both shapes are examples of: new symbols where they differ."""
    if one is None or other is None or len(one) != len(other):
        return None
    return ir.Shape([_either(context, a, b) for a, b in zip(one, other, strict=True)])


def _either(context: Context, a: Size, b: Size) -> Size:
    unnamed = isinstance(a, ir.SymbolicDim) and a.value is None
    return a if not unnamed and algebra.same(a, b) else context.new_symbolic_dim()


def _loop(context: Context, node: ir.Node, infer: Infer, *, settle: bool) -> None:
    body = _graph(node, "body")
    starts = list(node.inputs[2:])
    if len(body.inputs) != 2 + len(starts) or len(body.outputs) != 1 + len(node.outputs):
        raise InvalidGraphError(
            f"the body takes {len(body.inputs)} values and gives {len(body.outputs)}; the node has "
            f"{len(node.inputs)} inputs and {len(node.outputs)} outputs"
        )
    for value, dtype in zip(body.inputs, (ir.DataType.INT64, ir.DataType.BOOL), strict=False):
        # ONNX Runtime gives the body a tensor of the rank that it declares: 0, or 1 with one element
        rank_one = value.shape is not None and len(value.shape) == 1
        value.type, value.shape = ir.TensorType(dtype), ir.Shape([1] if rank_one else [])
    carried = list(zip(body.inputs[2:], starts, body.outputs[1:], strict=False))
    _until_settled(context, body, carried, infer, settle=settle)
    trips = context.elements(input_at(node, 0))
    count = trips[0] if trips and _always_true(context, node, body) else None
    for index, out in enumerate(node.outputs):
        inner = body.outputs[index + 1]
        if index < len(starts):
            start = starts[index]
            out.type = inner.type
            out.shape = _common(context, inner.shape, None if start is None else start.shape)
        else:
            shape = sizes(inner)
            dims = None if shape is None else [context.new_symbolic_dim() if count is None else count, *shape]
            set_output(context, node, index, dims, inner.dtype)


def _always_true(context: Context, node: ir.Node, body: ir.Graph) -> bool:
    """Whether only the number of trips ends the loop: the condition is handed through, and true or left out."""
    given = input_at(node, 1)
    first = None if given is None else context.elements(given)
    if given is not None and (not first or not first[0]):
        return False
    after: ir.Value | None = body.outputs[0]
    while after is not None and (maker := after.producer()) is not None and maker.op_type == "Identity":
        after = maker.inputs[0]
    if after is body.inputs[1]:
        return True
    last = context.elements(after)
    return bool(last and last[0])


def _scan(context: Context, node: ir.Node, infer: Infer, *, settle: bool) -> None:
    body, old = _graph(node, "body"), context.opset < 9
    inputs = list(node.inputs[1:] if old else node.inputs)
    num_scanned = integer(node, "num_scan_inputs", 0)
    num_states = len(inputs) - num_scanned
    if num_states < 0 or len(body.inputs) != len(inputs) or len(body.outputs) != len(node.outputs):
        raise InvalidGraphError(
            f"the body takes {len(body.inputs)} values and gives {len(body.outputs)}; the node has "
            f"{len(inputs)} inputs and {len(node.outputs)} outputs"
        )
    lead = 1 if old else 0  # version 8 has a batch axis in front of everything
    axes = integers(node, "scan_input_axes") or [0] * num_scanned
    length: Size | None = None
    for value, scanned, axis in zip(body.inputs[num_states:], inputs[num_states:], axes, strict=False):
        shape = sizes(scanned)
        value.type = None if scanned is None else scanned.type
        value.shape = None
        if shape is not None:
            at = lead + axis_in(axis, len(shape) - lead)
            length = length if isinstance(length, int) else shape[at]
            value.shape = ir.Shape(shape[lead:at] + shape[at + 1 :])
    states = [_without_batch(value) if old else value for value in inputs[:num_states]]
    carried = list(zip(body.inputs[:num_states], states, body.outputs[:num_states], strict=False))
    _until_settled(context, body, carried, infer, settle=settle)
    batch = [_batch(context, inputs)] if old else []
    out_axes = integers(node, "scan_output_axes") or [0] * (len(node.outputs) - num_states)
    for index, out in enumerate(node.outputs):
        inner = body.outputs[index]
        shape = sizes(inner)
        if shape is not None and index >= num_states:
            at = axis_in(out_axes[index - num_states], len(shape) + 1)
            shape.insert(at, context.new_symbolic_dim() if length is None else length)
        out.type = inner.type
        out.shape = None if shape is None else ir.Shape([*batch, *shape])


def _without_batch(value: ir.Value | None) -> ir.Value | None:
    if value is None:
        return None
    shape = sizes(value)
    return ir.Value(name=value.name, type=value.type, shape=None if shape is None else ir.Shape(shape[1:]))


def _batch(context: Context, inputs: Sequence[ir.Value | None]) -> Size:
    for value in inputs:
        shape = sizes(value)
        if shape:
            return shape[0]
    return context.new_symbolic_dim()


def _until_settled(
    context: Context,
    body: ir.Graph,
    carried: Sequence[tuple[ir.Value, ir.Value | None, ir.Value]],
    infer: Infer,
    *,
    settle: bool,
) -> None:
    """Infer a body until what it carries to the next turn has the shape that it came with."""
    for value, start, _ in carried:
        value.type = None if start is None else start.type
        value.shape = None if start is None else start.shape
        if not settle:
            value.shape = None
    free: set[str] = set()  # symbols that stand for whatever a turn leaves
    for turn in range(_ROUNDS):
        infer(body)
        changes = [_widen(context, value, after, free, turn) for value, _, after in carried]
        if not any(changes):
            return


def _widen(context: Context, value: ir.Value, after: ir.Value, free: set[str], turn: int) -> bool:
    """Make what is known at the start of a turn true of its end too; whether that changed something."""
    if value.type is None and after.type is not None:
        value.type = after.type
        return True
    if value.shape is None:
        return False
    if after.shape is None or len(after.shape) != len(value.shape) or turn >= _ROUNDS - 2:
        settled = after.shape is not None and all(map(algebra.same, value.shape, after.shape))
        value.shape = value.shape if settled else None
        return not settled
    dims = [
        a if _is_free(a, free) else _either(context, a, b)
        for a, b in zip(value.shape, after.shape, strict=True)
    ]
    if all(map(algebra.same, dims, value.shape)):
        return False
    free.update(
        new.value or "" for new, old in zip(dims, value.shape, strict=True)
        if isinstance(new, ir.SymbolicDim) and new is not old
    )  # fmt: skip
    value.shape = ir.Shape(dims)
    return True


def _is_free(dim: Size, free: set[str]) -> bool:
    return isinstance(dim, ir.SymbolicDim) and dim.value in free


def _graph(node: ir.Node, name: str) -> ir.Graph:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type is not ir.AttributeType.GRAPH:
        raise InvalidGraphError(f"{node.op_type} {node.name!r} has no graph {name!r}")
    return attribute.as_graph()
