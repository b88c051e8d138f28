"""Attention with a cache, as ONNX Runtime defines it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import Rule, input_at, integer, required, set_output, sizes

_MS = "com.microsoft"


def _group_query(context: Context, node: ir.Node) -> None:
    """GroupQueryAttention: the cache that comes out holds the total length, and never less than the one that went in."""
    query, key, past = required(node, 0), input_at(node, 1), input_at(node, 3)
    heads, kv_heads = integer(node, "num_heads", 0), integer(node, "kv_num_heads", 0)
    if heads < 1 or kv_heads < 1:
        raise InvalidGraphError(f"num_heads {heads} and kv_num_heads {kv_heads} must be positive")
    shape, before = sizes(query), sizes(past)
    for index in range(min(3, len(node.outputs))):
        set_output(context, node, index, None, query.dtype if index == 0 or past is None else past.dtype)
    if shape is None or len(shape) != 3:
        return
    batch, seq, width = shape
    packed = key is None
    head_size = algebra.quotient(width, heads + 2 * kv_heads if packed else heads)
    set_output(context, node, 0, [batch, seq, algebra.product((head_size, heads))], None)
    total = context.elements(input_at(node, 6))
    length: Size = context.new_symbolic_dim()
    if total and total[0] is not None:
        length = algebra.largest(before[2], total[0]) if before and len(before) == 4 else total[0]
    stored = before[3] if before and len(before) == 4 else head_size  # smaller than a head when quantized
    for index in (1, 2):
        set_output(context, node, index, [batch, kv_heads, length, stored], None)
    if len(node.outputs) > 3:  # scores
        set_output(context, node, 3, [batch, heads, seq, length], query.dtype)


def _multi_head(context: Context, node: ir.Node) -> None:
    """MultiHeadAttention: keys and values come apart, packed together, packed with the query, or split into heads."""
    query, key, value, past = (input_at(node, index) for index in (0, 1, 2, 6))
    heads = integer(node, "num_heads", 0)
    dtype = required(node, 0).dtype
    for index in range(len(node.outputs)):
        set_output(context, node, index, None, dtype)
    shape, keys, values, before = sizes(query), sizes(key), sizes(value), sizes(past)
    if (
        heads < 1
        or shape is None
        or (key is not None and keys is None)
        or (value is not None and values is None)
    ):
        return
    batch, seq = shape[0], shape[1]
    width = algebra.product(shape[2:3] if len(shape) == 3 else (heads, shape[4]))
    head_size = algebra.quotient(width, heads)
    length = seq if keys is None else keys[2] if len(keys) == 4 else keys[1]
    if values is not None:
        value_size = values[3] if len(values) == 4 else algebra.quotient(values[2], heads)
    else:
        value_size = keys[4] if keys is not None and len(keys) == 5 else head_size
    set_output(context, node, 0, [batch, seq, algebra.product((heads, value_size))], None)
    if past is not None:
        length = (
            algebra.total((before[2], length)) if before and len(before) == 4 else context.new_symbolic_dim()
        )
    set_output(context, node, 1, [batch, heads, length, head_size], None)
    set_output(context, node, 2, [batch, heads, length, value_size], None)
    set_output(context, node, 3, [batch, heads, seq, length], None)


RULES: Mapping[tuple[str, str], Rule] = {
    (_MS, "GroupQueryAttention"): _group_query,
    (_MS, "MultiHeadAttention"): _multi_head,
}
