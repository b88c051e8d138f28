"""``Constant`` nodes as initializers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.loader.walk import graphs

_FROM_ATTRIBUTE: Mapping[str, Callable[[Any], ir.TensorProtocol]] = {
    "value": lambda tensor: tensor,
    "value_float": lambda number: ir.Tensor(np.array(number, np.float32)),
    "value_floats": lambda numbers: ir.Tensor(np.array(numbers, np.float32)),
    "value_int": lambda number: ir.Tensor(np.array(number, np.int64)),
    "value_ints": lambda numbers: ir.Tensor(np.array(numbers, np.int64)),
    "value_string": lambda text: _strings([text], ()),
    "value_strings": lambda texts: _strings(texts, (len(texts),)),
}


def constants_to_initializers(model: ir.Model) -> None:
    """Replace every ``Constant`` node, in inner graphs too, by an initializer of its name."""
    for graph in graphs(model):
        for node in tuple(graph):
            if node.op_type == "Constant" and normal_domain(node.domain) == "":
                _replace(graph, node)


def _replace(graph: ir.Graph, node: ir.Node) -> None:
    (attribute,) = [a for a in node.attributes.values() if a.name in _FROM_ATTRIBUTE]
    tensor = _FROM_ATTRIBUTE[attribute.name](attribute.value)
    (old,) = node.outputs
    name = old.name
    tensor.name = name
    new = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    graph.register_initializer(new)


def _strings(texts: list[str | bytes], dims: tuple[int, ...]) -> ir.StringTensor:
    encoded = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts]
    return ir.StringTensor(encoded, shape=ir.Shape(dims))
