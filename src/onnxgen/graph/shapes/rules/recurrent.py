"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import Rule, input_at, integer, required, set_output, sizes, text


def _recurrent(recurrence_axis: int) -> Rule:
    """``recurrence_axis``: where the recurrent weights have the hidden size, when the attribute does not say it."""

    def rule(context: Context, node: ir.Node) -> None:
        data, weights = required(node, 0), sizes(input_at(node, 2))
        shape, directions = sizes(data), 2 if text(node, "direction", "forward") == "bidirectional" else 1
        hidden: Size = integer(node, "hidden_size", 0) or (
            weights[recurrence_axis]
            if weights is not None and len(weights) == 3
            else context.new_symbolic_dim()
        )
        if shape is None:
            steps, batch = context.new_symbolic_dim(), context.new_symbolic_dim()
        elif integer(node, "layout", 0):
            batch, steps = shape[0], shape[1]
        else:
            steps, batch = shape[0], shape[1]
        if integer(node, "layout", 0):
            whole, last = [batch, steps, directions, hidden], [batch, directions, hidden]
        else:
            whole, last = [steps, directions, batch, hidden], [directions, batch, hidden]
        for index, dims in enumerate((whole, last, last)):
            set_output(context, node, index, dims, data.dtype)

    return rule


RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): _recurrent(2) for name in ("RNN", "GRU", "LSTM")},
    ("com.microsoft", "DynamicQuantizeLSTM"): _recurrent(1),
}
