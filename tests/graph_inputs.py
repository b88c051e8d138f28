"""Changes of tiny graphs that give them inputs which nobody but their user knows."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper


def take_volume(model: onnx.ModelProto) -> None:
    """Multiply the logits by a scalar."""
    graph = model.graph
    next(node for node in graph.node if node.output[0] == "logits").output[0] = "plain_logits"
    graph.input.append(helper.make_tensor_value_info("volume", TensorProto.FLOAT, []))
    graph.node.append(helper.make_node("Mul", ["plain_logits", "volume"], ["logits"]))
