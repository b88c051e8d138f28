"""Nodes of one graph that compute the same from the same become one."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import is_pure, is_used
from onnxgen.graph.optimizer.level import OptimizationLevel


def _run(context: Context) -> Counter[str]:
    return +Counter({"duplicate nodes merged": sum(_merge(graph, context) for graph in context.graphs())})


def _merge(graph: ir.Graph, context: Context) -> int:
    first: dict[tuple[object, ...], ir.Node] = {}
    merged = 0
    for node in list(graph):
        if not is_pure(node) or not any(map(is_used, node.outputs)):
            continue
        kept = first.setdefault(_key(node), node)
        if kept is node or kept.graph is not graph:
            first[_key(node)] = node
            continue
        edit = Edit(context, node)
        for old, new in zip(node.outputs, kept.outputs, strict=True):
            if is_used(old):
                edit.replace(old, new)
        merged += edit.apply()
    return merged


def _key(node: ir.Node) -> tuple[object, ...]:
    attributes = sorted((name, _content(attribute)) for name, attribute in node.attributes.items())
    # An output without a name is one that the node does not compute.
    wanted = tuple(bool(output.name) for output in node.outputs)
    return node.op_identifier(), node.version, tuple(map(id, node.inputs)), tuple(attributes), wanted


def _content(attribute: ir.Attr) -> str:
    """Text that differs where the attribute's meaning does; ``repr`` tells -0.0 from 0.0 and 1 from 1.0."""
    if attribute.type is ir.AttributeType.TENSOR:
        array = tensor_array(attribute.as_tensor())
        content = array.tolist() if array.dtype == object else array.tobytes().hex()
        return f"{array.dtype} {array.shape} {content}"
    return f"{attribute.type} {attribute.value!r}"


DUPLICATE_CODE = Pass("duplicate_code", OptimizationLevel.BASIC, _run)
