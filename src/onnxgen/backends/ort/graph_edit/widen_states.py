"""Keep bfloat16 caches as float32 outside the graph, because ONNX Runtime's arrays have no bfloat16."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit.surgery import replace_output


def widen_states(graph: ir.Graph, states: Mapping[str, str]) -> set[str]:
    """Make bfloat16 inputs and outputs float32, with a cast next to each.

    Every bfloat16 is a float32, so nothing is lost on the way out and back.

    Args:
        graph: The decoder.
        states: Past input to present output.

    Returns:
        The inputs that were changed.
    """
    changed: set[str] = set()
    for past, present in states.items():
        value = next(v for v in graph.inputs if v.name == past)
        if value.dtype != ir.DataType.BFLOAT16:
            continue
        changed.add(past)
        uses = list(value.uses())
        value.type = ir.TensorType(ir.DataType.FLOAT)
        narrow = ir.node("Cast", [value], {"to": ir.DataType.BFLOAT16.value}, name=f"onnxgen.narrow.{past}")
        narrow.outputs[0].type = ir.TensorType(ir.DataType.BFLOAT16)
        graph.insert_before(graph[0], narrow)
        for user, index in uses:
            user.replace_input_with(index, narrow.outputs[0])
        output = next(v for v in graph.outputs if v.name == present)
        wide = ir.node("Cast", [output], {"to": ir.DataType.FLOAT.value}, name=f"onnxgen.wide.{present}")
        wide.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
        wide.outputs[0].shape = output.shape
        graph.append(wide)
        replace_output(graph, output, wide.outputs[0])
    return changed
