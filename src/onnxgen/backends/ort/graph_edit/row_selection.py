"""Pick the wanted rows before the head, so that logits of other rows are never computed.

    before                                       after
    last attention                               last attention
      │  [batch, seq, width]                       │  [batch, seq, width]
    last feed-forward, norm                      GatherND(logits_rows)
      │  [batch, seq, width]                       │  [1, rows, width]
    head, scaling, soft cap                      last feed-forward, norm, head, scaling, soft cap
      │  [batch, seq, vocab]                       │  [1, rows, vocab]
    logits                                       logits, float32

The selection moves up as far as every operator below it treats tokens one by one and feeds the logits
only. Open a head that was pruned to the last position first.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit import gqa
from onnxgen.backends.ort.graph_edit.names import LOGITS_ROWS, Rows
from onnxgen.backends.ort.graph_edit.surgery import (
    add_input,
    constant_values,
    gather_nd_before,
    replace_output,
)
from onnxgen.backends.ort.graph_edit.tokenwise import constant_ints, why_not_tokenwise

_HEADS = frozenset({"MatMul", "MatMulNBits", "MatMulBnb4", "FusedMatMul"})
# tokenwise, but with inputs or outputs that are not laid out [batch, seq, width]
_OTHER_LAYOUT = frozenset({"Gather", "GatherBlockQuantized", "Reshape", "RotaryEmbedding"})


def open_pruned_head(graph: ir.Graph, *, logits: str) -> None:
    """Undo a selection of the last position between the last norm and the logits, if there is one."""
    output = next(v for v in graph.outputs if v.name == logits)
    constants = constant_values(graph)
    value = output
    while (node := value.producer()) is not None:
        source = _last_position_of(node)
        if source is not None:
            value.replace_all_uses_with(source)
            if output.shape is not None:
                output.shape = ir.Shape([output.shape[0], "rows", output.shape[2]])
            return
        data = [v for v in node.inputs if v is not None and v not in constants]
        if not _can_follow_selection(node, constants) or len(data) != 1:
            return
        value = data[0]


def select_rows(graph: ir.Graph, *, logits: str, hidden_states: str | None) -> Rows:
    """Add the input ``LOGITS_ROWS``, int64 ``[1, rows, 2]`` of (batch, seq) pairs, and select by it.

    Returns:
        ``WANTED``; or what the graph computes where it cannot be proved that its head treats rows one by
        one (the input is not added then).
    """
    output = next(v for v in graph.outputs if v.name == logits)
    if output.shape is not None and (len(output.shape) != 3 or output.shape[1] == 1):
        return Rows.LAST
    constants = constant_values(graph)
    below = _below_selection(graph, output, constants)
    above = _inputs_from_above(below, constants)
    if not all(_is_rows_of_tokens(v) for v in above):
        below = _head_only(output, constants)
        above = _inputs_from_above(below, constants)
    if not below:
        return Rows.ALL
    rows = add_input(graph, LOGITS_ROWS, ir.DataType.INT64, [1, "rows", 2])
    for i, value in enumerate(sorted(above, key=lambda v: str(v.name))):
        users = [(n, at) for n, at in value.uses() if n in below]
        first = min((n for n, _ in users), key=below.__getitem__)
        picked = gather_nd_before(first, value, rows, f"onnxgen.rows.{i}")
        for user, at in users:
            user.replace_input_with(at, picked)
    if hidden_states is not None:
        _select_output(graph, hidden_states, rows)
    return Rows.WANTED


def logits_to_float32(graph: ir.Graph, *, logits: str) -> None:
    """Convert the logits inside the graph, so that the result is written once, where the caller wants it."""
    output = next(v for v in graph.outputs if v.name == logits)
    if output.dtype == ir.DataType.FLOAT:
        return
    cast = ir.node("Cast", [output], {"to": ir.DataType.FLOAT.value}, name="onnxgen.logits")
    cast.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    cast.outputs[0].shape = output.shape
    graph.append(cast)
    replace_output(graph, output, cast.outputs[0])


def _select_output(graph: ir.Graph, name: str, rows: ir.Value) -> None:
    output = next(v for v in graph.outputs if v.name == name)
    gather = ir.Node("", "GatherND", [output, rows], num_outputs=1, name="onnxgen.hidden_rows")
    gather.outputs[0].type = output.type
    graph.append(gather)
    replace_output(graph, output, gather.outputs[0])


def _below_selection(graph: ir.Graph, logits: ir.Value, constants: set[ir.Value]) -> dict[ir.Node, int]:
    """Nodes that treat tokens one by one and feed nothing but the logits, with their order."""
    order = {node: i for i, node in enumerate(graph)}
    chosen: dict[ir.Node, int] = {}
    for node in reversed(list(graph)):
        feeds_logits = False
        for value in node.outputs:
            if value is logits:
                feeds_logits = True
            elif value.is_graph_output():
                break
            users = value.consumers()
            if any(user not in chosen for user in users):
                break
            feeds_logits |= bool(users)
        else:
            if feeds_logits and _can_follow_selection(node, constants):
                chosen[node] = order[node]
    return chosen


def _can_follow_selection(node: ir.Node, constants: set[ir.Value]) -> bool:
    if all(v is None or v in constants for v in node.inputs):
        return False
    return node.op_type not in _OTHER_LAYOUT and why_not_tokenwise(node, constants.__contains__) is None


def _head_only(logits: ir.Value, constants: set[ir.Value]) -> dict[ir.Node, int]:
    """The head's matrix product and the chain from it to the logits; empty when there is no such chain."""
    chain: list[ir.Node] = []
    value = logits
    while (node := value.producer()) is not None and _can_follow_selection(node, constants):
        chain.append(node)
        data = [v for v in node.inputs if v is not None and v not in constants]
        if node.op_type in _HEADS:
            return {n: len(chain) - i for i, n in enumerate(chain)}
        if len(data) != 1 or len(data[0].consumers()) != 1 or data[0].is_graph_output():
            return {}
        value = data[0]
    return {}


def _inputs_from_above(below: dict[ir.Node, int], constants: set[ir.Value]) -> set[ir.Value]:
    return {
        value
        for node in below
        for value in node.inputs
        if value is not None and value not in constants and value.producer() not in below
    }


def _is_rows_of_tokens(value: ir.Value) -> bool:
    """Whether a value is known to be ``[batch, seq, width]``, with no axis broadcast."""
    producer, shape = value.producer(), value.shape
    if producer is not None and producer.op_type == gqa.OP_TYPE and value is producer.outputs[gqa.OUTPUT]:
        return True
    return shape is not None and len(shape) == 3 and shape[1] != 1 and not value.is_graph_input()


def _last_position_of(node: ir.Node) -> ir.Value | None:
    """The value ``[batch, seq, width]`` whose last position a node's result is, ``[batch, 1, width]``."""
    if node.op_type == "Unsqueeze" and constant_ints(node.inputs[1]) == [1]:
        inner = node.inputs[0].producer() if node.inputs[0] is not None else None
        if inner is not None and _gathers_last(inner, scalar=True):
            return inner.inputs[0]
    if _gathers_last(node, scalar=False):
        return node.inputs[0]
    if node.op_type == "Slice" and len(node.inputs) >= 4:
        starts, axes = constant_ints(node.inputs[1]), constant_ints(node.inputs[3])
        ends = constant_ints(node.inputs[2])
        steps = constant_ints(node.inputs[4]) if len(node.inputs) > 4 else [1]
        if starts == [-1] and axes == [1] and steps == [1] and ends is not None and ends[0] > 1 << 30:
            return node.inputs[0]
    return None


def _gathers_last(node: ir.Node, *, scalar: bool) -> bool:
    if node.op_type != "Gather" or node.attributes.get("axis") is None:
        return False
    index = None if node.inputs[1] is None else ir.convenience.get_const_tensor(node.inputs[1])
    if index is None or index.size != 1 or (len(index.shape) == 0) != scalar:
        return False
    return node.attributes["axis"].value == 1 and int(index.numpy().reshape(-1)[0]) == -1
