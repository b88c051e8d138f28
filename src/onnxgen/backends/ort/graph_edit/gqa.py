"""``com.microsoft.GroupQueryAttention``: its inputs by name, and where a graph uses it."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit.tokenwise import MICROSOFT

OP_TYPE = "GroupQueryAttention"

QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, SEQLENS_K, TOTAL_SEQUENCE_LENGTH = range(7)
COS_CACHE, SIN_CACHE, POSITION_IDS, ATTENTION_BIAS = 7, 8, 9, 10
QUERY_SEQLENS, NUM_INPUTS = 16, 17
OUTPUT, PRESENT_KEY, PRESENT_VALUE = range(3)


def attention_nodes(graph: ir.Graph) -> list[ir.Node]:
    """The grouped-query attention nodes of a graph, in order."""
    return [n for n in graph if n.op_type == OP_TYPE and n.domain == MICROSOFT]


def node_input(node: ir.Node, index: int) -> ir.Value | None:
    """An optional input; None where it is absent."""
    return node.inputs[index] if index < len(node.inputs) else None


def int_attribute(node: ir.Node, name: str, default: int = 0) -> int:
    """An integer attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else int(attribute.value)
