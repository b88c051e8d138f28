"""What has to run before what."""

from __future__ import annotations

import graphlib
from collections.abc import Sequence

import onnx

from onnxgen.graph.loader.walk import direct_graphs


def find_cycle(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Nodes each of which needs the next one's outputs, in a circle; empty where there is none.

    What the graphs inside a node use counts as used by the node.
    """
    producer = {output: index for index, node in enumerate(nodes) for output in node.output if output}
    needs = {
        index: {producer[name] for name in used_names(node) if name in producer}
        for index, node in enumerate(nodes)
    }
    if all(needed < index for index, several in needs.items() for needed in several):
        return []
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return [nodes[index] for index in error.args[1]]
    return []


def used_names(node: onnx.NodeProto) -> set[str]:
    """Names of the values around a node that it needs: its inputs, and what the graphs inside it take from outside."""
    used = {name for name in node.input if name}
    for graph in direct_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {sparse.values.name for sparse in graph.sparse_initializer}
        inner = {value.name for value in graph.output}
        for inner_node in graph.node:
            own.update(inner_node.output)
            inner |= used_names(inner_node)
        used |= inner - own
    return used
