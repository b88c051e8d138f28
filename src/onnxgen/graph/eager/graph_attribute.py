"""Graphs of `If`, `Loop` and `Scan` as callers give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir


def read_graph(value: Any) -> ir.Graph:
    """An `onnx_ir.Graph` as it is, a ``GraphProto`` as one; it may use values that are not its own.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, ir.Graph):
        return value
    if type(value).__name__ != "GraphProto":
        raise TypeError
    # read inside of a graph that has the outer values: alone, the graph would be a broken one
    outside = type(value)(name="outside")
    for name in dict.fromkeys(_free_names(value)):
        outside.input.add(name=name)
    node = outside.node.add(op_type="Of")
    node.attribute.add(name="graph", type=ir.AttributeType.GRAPH.value).g.CopyFrom(value)
    (holder,) = ir.serde.deserialize_graph(outside)
    return holder.attributes["graph"].as_graph()


def _free_names(graph: Any) -> Iterator[str]:
    own = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        used = list(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                used.extend(_free_names(inner))
        yield from (name for name in used if name and name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)
