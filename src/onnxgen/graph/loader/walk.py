"""Every graph, node and tensor of a model, however deep."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir


def proto_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The model's graph, the graphs inside its nodes, and those inside the nodes of its functions."""
    yield from _with_inner(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from inner_graphs(node)


def proto_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node of every graph and function."""
    for graph in proto_graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs inside a node, at any depth."""
    for graph in direct_graphs(node):
        yield from _with_inner(graph)


def direct_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The model's graph and those inside its nodes, then those of the functions it has left."""
    yield model.graph
    yield from model.graph.subgraphs()
    for function in model.functions.values():
        yield function.graph
        yield from function.graph.subgraphs()


def _with_inner(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        yield from inner_graphs(node)


def node_label(node: onnx.NodeProto) -> str:
    """What messages call a node: its operator, and its name or first output."""
    name = node.name or next((output for output in node.output if output), "")
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"{operator} node {name!r}" if name else f"{operator} node without a name"
