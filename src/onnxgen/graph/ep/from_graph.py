"""Nodes of a graph as providers are told of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.attributes import attribute_values, tensor_array, value_type
from onnxgen.graph.ir.schemas import normal_domain, since_version
from onnxgen.graph.ir.types import DECLARED_TYPE, ValueType


def node_spec(node: ir.Node, opsets: Mapping[str, int]) -> NodeSpec:
    """Describe a node; ``opsets`` are the model's imports, by domain in any spelling, unless it has its own version.

    Types come from the node's values, constants from initializers that no feed can override.
    """
    domain = normal_domain(node.domain)
    imported = {normal_domain(name): version for name, version in opsets.items()}.get(domain, 1)
    opset = imported if node.version is None else node.version
    constants = {
        index: array
        for index, value in enumerate(node.inputs)
        if value is not None and (array := constant_array(value)) is not None
    }
    return NodeSpec(
        domain=domain,
        op_type=node.op_type,
        opset=opset,
        since_version=since_version(domain, node.op_type, opset),
        attributes=attribute_values(node),
        inputs=tuple(None if value is None else type_of(value) for value in node.inputs),
        outputs=tuple(type_of(value) if value.name else None for value in node.outputs),
        constants=constants,
        captures=tuple(value.name or "" for value in captured_values(node)),
        name=node.name or "",
    )


def type_of(value: ir.Value) -> ValueType:
    """The type that inference or the file gave a value."""
    return value.meta[DECLARED_TYPE] if DECLARED_TYPE in value.meta else value_type(value.type, value.shape)


def constant_array(value: ir.Value) -> np.ndarray | None:
    """The value of an initializer that is not also an input (those can be fed), read-only; None otherwise."""
    if value.const_value is None or value.is_graph_input():
        return None
    array = tensor_array(value.const_value)
    view = array.view()
    view.flags.writeable = False
    return view


def captured_values(node: ir.Node) -> tuple[ir.Value, ...]:
    """Outer values that the node's graphs use, at any depth, each once, in the order of first use."""
    found: dict[ir.Value, None] = {}
    for attribute in node.attributes.values():
        graphs = (
            (attribute.value,) if attribute.type is ir.AttributeType.GRAPH
            else tuple(attribute.value) if attribute.type is ir.AttributeType.GRAPHS
            else ()
        )  # fmt: skip
        for graph in graphs:
            found.update(dict.fromkeys(_free_values(graph)))
    return tuple(found)


def _free_values(graph: ir.Graph) -> list[ir.Value]:
    inner = set(graph.inputs) | set(graph.initializers.values())
    used: list[ir.Value] = []
    for node in graph:
        used.extend(value for value in node.inputs if value is not None)
        used.extend(captured_values(node))
        inner.update(node.outputs)
    used.extend(value for value in graph.outputs)
    return [value for value in dict.fromkeys(used) if value not in inner]
