"""Give out what the head multiplies, and let rows stop there whose logits nobody wants.

before                          after
last norm                       last norm
  │  [1, rows, width]             │  [1, rows, width] ──── hidden states, float32
head, scaling, soft cap         GatherND(head_rows)
  │  [1, rows, vocab]             │  [1, some rows, width]
logits                          head, scaling, soft cap ── logits
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit.names import HEAD_ROWS
from onnxgen.backends.ort.graph_edit.surgery import add_input, constant_values, gather_nd_before

HIDDEN_STATES = "onnxgen.hidden_states"
JOINED = "onnxgen.joined_states"

_HEADS = frozenset({"MatMul", "MatMulNBits", "MatMulBnb4", "FusedMatMul"})
# what moves rows to other places, so that what lies above it need not be [batch, seq, width]
_MOVING = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def is_before_head(graph: ir.Graph, *, logits: str, hidden_states: str) -> bool:
    """Whether an output of a graph is what its head multiplies."""
    head = _head(graph, logits)
    return head is not None and head.inputs[0] is _output(graph, hidden_states)


def drop_output(graph: ir.Graph, name: str) -> None:
    """Take an output away; its value stays."""
    value = _output(graph, name)
    graph.outputs.remove(value)
    value.name = f"{name}.before"


def join_outputs(graph: ir.Graph, names: Sequence[str]) -> str:
    """Make one output of some, side by side, in float32; returns its name."""
    casts = [
        ir.node("Cast", [_output(graph, name)], {"to": ir.DataType.FLOAT.value}, name=f"{JOINED}.{i}")
        for i, name in enumerate(names)
    ]
    for cast in casts:
        cast.outputs[0].name, cast.outputs[0].type = f"{cast.name}.float32", ir.TensorType(ir.DataType.FLOAT)
    joined = ir.node("Concat", [cast.outputs[0] for cast in casts], {"axis": -1}, name=JOINED)
    result = joined.outputs[0]
    result.name, result.type = JOINED, ir.TensorType(ir.DataType.FLOAT)
    graph.extend([*casts, joined])
    graph.outputs.append(result)
    return JOINED


def give_out(graph: ir.Graph, *, logits: str) -> str | None:
    """Make what the head multiplies an output, in float32; returns its name, None where there is no head."""
    head = _head(graph, logits)
    value = None if head is None else head.inputs[0]
    if value is None:
        return None
    # a node of its own in any case, since the value may be an output already, or be fused away
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT.value}, name=HIDDEN_STATES)
    result = cast.outputs[0]
    result.name, result.type = HIDDEN_STATES, ir.TensorType(ir.DataType.FLOAT)
    graph.append(cast)
    graph.outputs.append(result)
    return HIDDEN_STATES


def select_for_head(graph: ir.Graph, *, logits: str) -> bool:
    """Add the input ``HEAD_ROWS``: which of the selected rows go through the head. False where there is no head."""
    head = _head(graph, logits)
    value = None if head is None else head.inputs[0]
    if head is None or value is None:
        return False
    rows = add_input(graph, HEAD_ROWS, ir.DataType.INT64, [1, "head_rows", 2])
    head.replace_input_with(0, gather_nd_before(head, value, rows, HEAD_ROWS + ".picked"))
    return True


def _head(graph: ir.Graph, logits: str) -> ir.Node | None:
    """The matrix product that the logits come from, by operators that leave rows where they are."""
    constants = constant_values(graph)
    value = _output(graph, logits)
    while (node := value.producer()) is not None and node.op_type not in _MOVING:
        data = [v for v in node.inputs if v is not None and v not in constants]
        if len(data) != 1:
            return None
        if node.op_type in _HEADS:
            return node if data[0] is node.inputs[0] else None
        value = data[0]
    return None


def _output(graph: ir.Graph, name: str) -> ir.Value:
    return next(v for v in graph.outputs if v.name == name)
