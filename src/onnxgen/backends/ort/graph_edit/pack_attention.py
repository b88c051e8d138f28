"""Run a decoder on packed tokens: only attention sees sequences.

    input_ids [tokens, 1] ── embedding, norms, matrices on [tokens, 1, width] ─┐
                                                                              GatherND(pad)
                                                             [slots, longest, width] │
                                                          GroupQueryAttention, query_seqlens
                                                             [slots, longest, width] │
    … ── the next matrices on [tokens, 1, width] ◄──────────── GatherND(unpad) ──────┘

So padding costs no matrix work, and one call mixes prefill, chunks, decode and idle slots. This needs
ONNX Runtime's ``query_seqlens`` input (CPU, 1.32). Lengths become graph inputs, and the subgraphs that
made them out of ``attention_mask`` die. A graph is only rewritten when every operator between its inputs
and its logits is proved to treat tokens one by one. To such operators the tokens look like a batch of
sequences of length one, so that none of them meets a longer sequence than the model is made for.
"""

from __future__ import annotations

import enum

import onnx_ir as ir

from onnxgen.backends.ort.graph_edit import gqa
from onnxgen.backends.ort.graph_edit.names import CAPACITY, PAD, QUERY_SEQLENS, SEQLENS_K, UNPAD
from onnxgen.backends.ort.graph_edit.surgery import (
    add_input,
    constant_values,
    gather_nd_after,
    gather_nd_before,
)
from onnxgen.backends.ort.graph_edit.tokenwise import why_not_tokenwise


class _Kind(enum.Enum):
    CONSTANT = "the same in every run"
    CALL = "depends on lengths only, not on single tokens"
    TOKENS = "laid out token after token"
    CACHE = "a cache"


def why_not_packable(
    graph: ir.Graph, *, token_inputs: set[str], call_inputs: set[str], switches_rope: bool
) -> str | None:
    """Say why a graph cannot run on packed tokens; None when it can.

    Args:
        graph: The decoder.
        token_inputs: Names of inputs with one entry per token (``input_ids``, ``position_ids``).
        call_inputs: Names of inputs about lengths (``attention_mask``).
        switches_rope: Whether calls are kept on one side of a switch of rotary tables.
    """
    nodes = gqa.attention_nodes(graph)
    if not nodes:
        return "it has no GroupQueryAttention"
    inputs = set(graph.inputs)
    for node in nodes:
        reason = _why_not_attention(node, inputs)
        if reason:
            return reason
    kinds = dict.fromkeys(constant_values(graph), _Kind.CONSTANT)
    for value in graph.inputs:
        if value.name in token_inputs:
            kinds[value] = _Kind.TOKENS
        elif value.name in call_inputs:
            kinds[value] = _Kind.CALL
        elif value not in kinds:
            kinds[value] = _Kind.CACHE
    attention = set(nodes)
    for node in graph:
        reason = _spread_attention(node, kinds) if node in attention else _spread(node, kinds, switches_rope)
        if reason:
            return reason
    return None


def pack_attention(graph: ir.Graph) -> None:
    """Rewrite a graph that `why_not_packable` finds nothing against."""
    pad = add_input(graph, PAD, ir.DataType.INT64, ["slots", "longest", 2])
    unpad = add_input(graph, UNPAD, ir.DataType.INT64, ["tokens", 1, 2])
    seqlens_k = add_input(graph, SEQLENS_K, ir.DataType.INT32, ["slots"])
    capacity = add_input(graph, CAPACITY, ir.DataType.INT32, [])
    query_seqlens = add_input(graph, QUERY_SEQLENS, ir.DataType.INT32, ["slots"])
    for layer, node in enumerate(gqa.attention_nodes(graph)):
        node.resize_inputs(gqa.NUM_INPUTS)
        for index in (gqa.QUERY, gqa.KEY, gqa.VALUE):
            value = node.inputs[index]
            if value is not None:
                padded = gather_nd_before(node, value, pad, f"onnxgen.pad.{layer}.{index}")
                node.replace_input_with(index, padded)
        node.replace_input_with(gqa.SEQLENS_K, seqlens_k)
        node.replace_input_with(gqa.TOTAL_SEQUENCE_LENGTH, capacity)
        # positions count on from the cached length by contract, which is what attention does by itself
        node.replace_input_with(gqa.POSITION_IDS, None)
        node.replace_input_with(gqa.QUERY_SEQLENS, query_seqlens)
        gather_nd_after(node.outputs[gqa.OUTPUT], unpad, f"onnxgen.unpad.{layer}")


def _why_not_attention(node: ir.Node, inputs: set[ir.Value]) -> str | None:
    past = [gqa.node_input(node, i) for i in (gqa.PAST_KEY, gqa.PAST_VALUE)]
    if any(v is None or v not in inputs for v in past):
        return f"{node.name} does not take its cache from a graph input"
    present = node.outputs[1:3]
    if len(present) != 2 or not all(v.is_graph_output() and not v.uses() for v in present):
        return f"{node.name} does not give its cache to a graph output"
    if any(v.uses() or v.is_graph_output() for v in node.outputs[3:]):
        return f"{node.name} gives attention scores"
    if gqa.node_input(node, gqa.ATTENTION_BIAS) is not None:
        return f"{node.name} has an attention bias"
    if gqa.node_input(node, gqa.QUERY_SEQLENS) is not None:
        return f"{node.name} has query lengths of its own"
    if gqa.int_attribute(node, "sliding_window_cache"):
        return f"{node.name} keeps a window of its cache only"
    if gqa.int_attribute(node, "causal", 1) != 1:
        return f"{node.name} is not causal"
    return None


def _spread_attention(node: ir.Node, kinds: dict[ir.Value, _Kind]) -> str | None:
    for index, value in enumerate(node.inputs):
        if value is None or index in (
            gqa.PAST_KEY, gqa.PAST_VALUE, gqa.SEQLENS_K, gqa.TOTAL_SEQUENCE_LENGTH
        ):  # fmt: skip
            continue
        kind = kinds[value]
        if index in (gqa.QUERY, gqa.KEY, gqa.VALUE):
            if kind is not _Kind.TOKENS:
                return f"input {index} of {node.name} does not come from the tokens"
        elif index == gqa.POSITION_IDS:
            if not _is_plain_position(value):
                return f"{node.name} takes computed positions"
        elif kind is not _Kind.CONSTANT:
            return f"input {index} of {node.name} is not constant"
    kinds[node.outputs[0]] = _Kind.TOKENS
    kinds.update(dict.fromkeys(node.outputs[1:], _Kind.CACHE))
    return None


def _is_plain_position(value: ir.Value) -> bool:
    node = value.producer()
    while node is not None and node.op_type in ("Identity", "Cast") and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value.is_graph_input()


def _spread(node: ir.Node, kinds: dict[ir.Value, _Kind], switches_rope: bool) -> str | None:
    given = {kinds[v] for v in node.inputs if v is not None}
    if _Kind.CACHE in given:
        return f"{node.op_type} {node.name} reads the cache"
    if node.op_type == "If":
        return _spread_if(node, kinds, switches_rope)
    if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
        return f"{node.op_type} {node.name} holds a subgraph"
    if given <= {_Kind.CONSTANT}:
        kind = _Kind.CONSTANT
    elif given <= {_Kind.CONSTANT, _Kind.CALL} or node.op_type in ("Shape", "Size") or _is_summary(node):
        kind = _Kind.CALL
    else:
        kind = _Kind.TOKENS
        if _Kind.CALL in given and (node.op_type != "Reshape" or kinds[_first(node)] is not _Kind.TOKENS):
            return f"{node.op_type} {node.name} mixes tokens with values of the whole batch"
        reason = why_not_tokenwise(node, lambda v: kinds[v] is _Kind.CONSTANT)
        if reason:
            return reason
    kinds.update(dict.fromkeys(node.outputs, kind))
    return None


def _first(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _is_summary(node: ir.Node) -> bool:
    """A maximum over everything, as models use to choose rotary tables by the longest position."""
    keepdims = gqa.int_attribute(node, "keepdims", 1)
    return (
        node.op_type == "ReduceMax"
        and len(node.inputs) == 1
        and not keepdims
        and "axes" not in node.attributes
    )


def _spread_if(node: ir.Node, kinds: dict[ir.Value, _Kind], switches_rope: bool) -> str | None:
    for attribute in node.attributes.values():
        branch = attribute.value
        assert isinstance(branch, ir.Graph)
        if not _only_reads_constants(branch, kinds):
            return f"If {node.name} chooses between more than constants"
    condition = kinds[_first(node)]
    if condition is _Kind.TOKENS:
        return f"If {node.name} chooses by a token"
    if condition is _Kind.CALL and not switches_rope:
        return f"If {node.name} chooses by length, but the model names no length where rotary tables change"
    kinds.update(dict.fromkeys(node.outputs, _Kind.CONSTANT))
    return None


def _only_reads_constants(branch: ir.Graph, kinds: dict[ir.Value, _Kind]) -> bool:
    own = {v for n in branch for v in n.outputs} | set(branch.initializers.values())
    read = {v for n in branch for v in n.inputs if v is not None} | set(branch.outputs)
    return all(v in own or kinds.get(v) is _Kind.CONSTANT for v in read)
