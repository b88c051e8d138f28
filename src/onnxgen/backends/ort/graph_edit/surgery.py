"""Small steps that every rewrite is made of."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes import common


def add_input(graph: ir.Graph, name: str, dtype: ir.DataType, dims: Sequence[int | str]) -> ir.Value:
    """Append a graph input."""
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(dims))
    graph.inputs.append(value)
    return value


def gather_nd_before(node: ir.Node, data: ir.Value, indices: ir.Value, name: str) -> ir.Value:
    """Insert ``GatherND(data, indices)`` in front of ``node``; the caller connects its result."""
    gather = ir.Node("", "GatherND", [data, indices], num_outputs=1, name=name)
    gather.outputs[0].name = name
    gather.outputs[0].type = data.type
    _graph(node).insert_before(node, gather)
    return gather.outputs[0]


def gather_nd_after(value: ir.Value, indices: ir.Value, name: str) -> None:
    """Let every user of ``value`` see ``GatherND(value, indices)`` instead."""
    producer = value.producer()
    assert producer is not None
    uses = list(value.uses())
    gather = ir.Node("", "GatherND", [value, indices], num_outputs=1, name=name)
    result = gather.outputs[0]
    result.name, result.type = name, value.type
    _graph(producer).insert_after(producer, gather)
    for user, index in uses:
        user.replace_input_with(index, result)


def replace_output(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Make ``new`` the graph output that ``old`` was, under the same name."""
    assert old.name is not None
    index = next(i for i, value in enumerate(graph.outputs) if value is old)
    new.name, old.name = old.name, f"{old.name}.before"
    graph.outputs[index] = new


def constant_values(graph: ir.Graph) -> set[ir.Value]:
    """Values that are the same in every run: initializers and what is computed from them alone."""
    inputs = set(graph.inputs)
    constants = {v for v in graph.initializers.values() if v not in inputs}
    for node in graph:
        if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
            continue
        if node.op_type.startswith("Random"):
            continue
        if all(v is None or v in constants for v in node.inputs):
            constants.update(node.outputs)
    return constants


def drop_dead_nodes(model: ir.Model) -> None:
    """Remove nodes and initializers that nothing uses."""
    common.RemoveUnusedNodesPass()(model)


def drop_unused_inputs(graph: ir.Graph) -> None:
    """Remove graph inputs that no node reads."""
    for value in list(graph.inputs):
        if not value.uses() and not value.is_graph_output():
            graph.inputs.remove(value)


def forget_shapes(graph: ir.Graph) -> None:
    """Drop recorded shapes of intermediate values, which a change of layout has made wrong."""
    outputs = set(graph.outputs)
    for node in graph:
        for value in node.outputs:
            if value not in outputs:
                value.shape = None


def _graph(node: ir.Node) -> ir.Graph:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    return graph
