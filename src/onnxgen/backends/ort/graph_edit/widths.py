"""Sizes that a graph implies where its shapes do not say them."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit import gqa


def head_dim(attention: ir.Node) -> int | None:
    """Width of one head of a grouped-query attention node, from what feeds it or what it feeds."""
    heads = gqa.int_attribute(attention, "num_heads")
    kv_heads = gqa.int_attribute(attention, "kv_num_heads")
    query = gqa.node_input(attention, gqa.QUERY)
    packed = gqa.node_input(attention, gqa.KEY) is None
    width = None if query is None else _width(query)
    if width is not None:
        return width // (heads + 2 * kv_heads) if packed else width // heads
    width = _width(attention.outputs[gqa.OUTPUT])
    return None if width is None else width // heads


def _width(value: ir.Value) -> int | None:
    last = value.shape[-1] if value.shape is not None and len(value.shape) else None
    if isinstance(last, int):
        return last
    producer = value.producer()
    if producer is not None and (made := _columns(producer)) is not None:
        return made
    return next((w for n in value.consumers() if (w := _rows(n)) is not None), None)


def _columns(node: ir.Node) -> int | None:
    if node.op_type == "MatMulNBits":
        return gqa.int_attribute(node, "N")
    return _weight_dim(node, -1)


def _rows(node: ir.Node) -> int | None:
    if node.op_type == "MatMulNBits":
        return gqa.int_attribute(node, "K")
    return _weight_dim(node, 0)


def _weight_dim(node: ir.Node, axis: int) -> int | None:
    weight = node.inputs[1] if node.op_type == "MatMul" else None
    if weight is None or weight.shape is None or len(weight.shape) != 2:
        return None
    dim = weight.shape[axis]
    return dim if isinstance(dim, int) else None
