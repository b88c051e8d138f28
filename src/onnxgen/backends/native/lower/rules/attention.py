"""Attention over a cache, and rotary embedding where it stands alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.lengths import is_for_each
from onnxgen.backends.native.lower.meanings import (
    CacheState,
    Constant,
    DeclineError,
    Meaning,
    RowsOf,
    Switched,
)
from onnxgen.backends.native.lower.rule import MICROSOFT, Inputs, RuleTable, at
from onnxgen.backends.native.lower.state import (
    Lowering,
    describe,
    floats,
    integer,
    real,
    stored_constant,
    vector,
    whole_rows,
)
from onnxgen.backends.native.plan import CacheLayer, Family, Part, RowKind, Vector, View

TABLE = RuleTable()

_Weights = dict[str, tuple[Part, str]]


@TABLE.operator("GroupQueryAttention", MICROSOFT)
def group_query_attention(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Attends to all tokens so far; appends the new ones to the cache."""
    _refuse_what_steps_lack(node, inputs)
    heads, kv_heads = integer(node, "num_heads"), integer(node, "kv_num_heads")
    query, key, value, head_dim = _projections(inputs, heads, kv_heads)
    past_key, past_value = _past(at(inputs, 3), "key"), _past(at(inputs, 4), "value")
    if past_key.layer != past_value.layer:
        raise DeclineError(f"keys of layer {past_key.layer} with values of layer {past_value.layer}")
    _check_lengths(lowering, inputs)
    weights, rotary_dim = _Weights(), 0
    if integer(node, "do_rotary"):
        rotary_dim = _add_tables(lowering, weights, at(inputs, 7), at(inputs, 8), head_dim)
        if at(inputs, 9) is not None:
            _check_positions(lowering, at(inputs, 9))
    for role, index, size in (("sinks", 11, heads), ("query_norm", 14, head_dim), ("key_norm", 15, head_dim)):
        if at(inputs, index) is not None:
            weights[role] = (vector(at(inputs, index), role, size), _name(node, index))
    if integer(node, "smooth_softmax", -1) == 1 and "sinks" not in weights:
        weights["sinks"] = (Vector(stored_constant(np.zeros(heads, np.float32)).stored), "smooth softmax")
    if ("query_norm" in weights) != ("key_norm" in weights):
        raise DeclineError("only queries or only keys are normed")
    window = integer(node, "local_window_size", -1)
    # Two layers may share an output of attention only if they share the cache, which no graph does.
    lowering.caches.append(CacheLayer(kv_heads, head_dim))
    attended = lowering.emit(
        node, Family.ATTEND, query, width=heads * head_dim,
        reads={"query": query, "key": key, "value": value}, weights=weights,
        cache=len(lowering.caches) - 1, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        rotary_dim=rotary_dim, interleaved=integer(node, "rotary_interleaved"),
        scale=real(node, "scale") or head_dim**-0.5, softcap=real(node, "softcap"), window=max(window, 0),
        epsilon=real(node, "qk_norm_epsilon", 1e-6),
    )  # fmt: skip
    shapes = tuple((1, kv_heads, s.total, head_dim) for s in lowering.samples)
    layer = past_key.layer
    return [
        attended,
        CacheState("key", layer, present=True, shapes=shapes),
        CacheState("value", layer, present=True, shapes=shapes),
    ]


@TABLE.operator("RotaryEmbedding", MICROSOFT)
def rotary_embedding(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Rotates heads by their tokens' positions."""
    if real(node, "scale", 1.0) != 1.0:
        raise DeclineError(f"positions are scaled by {real(node, 'scale')}")
    return [_rotated(lowering, node, at(inputs, 0), at(inputs, 2), at(inputs, 3), at(inputs, 1))]


@TABLE.operator("RotaryEmbedding")
def standard_rotary_embedding(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Rotates heads by their tokens' positions."""
    if at(inputs, 3) is None:
        raise DeclineError("it has tables for each token instead of positions")
    return [_rotated(lowering, node, at(inputs, 0), at(inputs, 1), at(inputs, 2), at(inputs, 3))]


def _rotated(
    lowering: Lowering,
    node: ir.Node,
    meaning: Meaning | None,
    cos: Meaning | None,
    sin: Meaning | None,
    positions: Meaning | None,
) -> RowsOf:
    x = whole_rows(meaning, "the input")
    if len(x.shapes[0]) != 3:
        raise DeclineError(f"the input has shape {x.shapes[0]}, known is [batch, seq, width]")
    _check_positions(lowering, positions)
    heads = integer(node, "num_heads")
    table = floats(cos.short if isinstance(cos, Switched) else cos, "cos_cache")
    stated = integer(node, "rotary_embedding_dim")
    head_dim = x.last // heads if heads else 2 * table.array.shape[-1]
    if x.last % head_dim:
        raise DeclineError(f"rows of {x.last} with heads of {head_dim}")
    weights = _Weights()
    rotary_dim = _add_tables(lowering, weights, cos, sin, head_dim)
    if stated and stated != rotary_dim:
        raise DeclineError(f"it rotates {stated} of {head_dim} columns with tables for {rotary_dim}")
    return lowering.emit(
        node, Family.ROTATE, x, width=x.last, reads={"x": x}, weights=weights, shapes=x.shapes,
        heads=x.last // head_dim, head_dim=head_dim, rotary_dim=rotary_dim,
        interleaved=integer(node, "interleaved"),
    )  # fmt: skip


def _refuse_what_steps_lack(node: ir.Node, inputs: Inputs) -> None:
    for index, what in ((10, "attention_bias"), (12, "k_scale"), (13, "v_scale"), (16, "query_seqlens")):
        if at(inputs, index) is not None:
            raise DeclineError(f"it has the input {what}")
    if integer(node, "causal", 1) != 1:
        raise DeclineError("it is not causal")
    if integer(node, "sliding_window_cache"):
        raise DeclineError("its cache is a window")
    if integer(node, "qk_output") and len(node.outputs) > 3 and node.outputs[3].name:
        raise DeclineError("it gives out its scores")
    if "q_norm_epsilon" in node.attributes or "k_norm_epsilon" in node.attributes:
        raise DeclineError("queries and keys are normed with epsilons of their own")


def _projections(inputs: Inputs, heads: int, kv_heads: int) -> tuple[RowsOf, RowsOf, RowsOf, int]:
    query = whole_rows(at(inputs, 0), "query")
    if query.rows is not RowKind.TOKENS:
        raise DeclineError("attention over rows that were selected before")
    if at(inputs, 1) is None:
        head_dim = query.last // (heads + 2 * kv_heads)
        widths = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
        if sum(widths) != query.last:
            raise DeclineError(f"rows of {query.last} do not hold {heads} and 2 x {kv_heads} heads")
        q, k, v = (_columns(query, sum(widths[:i]), widths[i]) for i in range(3))
    else:
        q, k, v = query, whole_rows(at(inputs, 1), "key"), whole_rows(at(inputs, 2), "value")
        head_dim = q.last // heads
    if (q.last, k.last, v.last) != (heads * head_dim, kv_heads * head_dim, kv_heads * head_dim):
        raise DeclineError(
            f"widths {q.last}, {k.last}, {v.last} for {heads} and {kv_heads} heads of {head_dim}"
        )
    if heads % kv_heads:
        raise DeclineError(f"{heads} heads over {kv_heads} heads of keys")
    return q, k, v, head_dim


def _columns(x: RowsOf, start: int, width: int) -> RowsOf:
    view = View(x.view.buffer, x.view.offset + start, width)
    return RowsOf(view, x.rows, tuple((*s[:-1], width) for s in x.shapes))


def _past(meaning: Meaning | None, part: str) -> CacheState:
    if not isinstance(meaning, CacheState) or meaning.present or meaning.part != part:
        raise DeclineError(f"the past {part}s are {describe(meaning)}, not a cache input")
    return meaning


def _check_lengths(lowering: Lowering, inputs: Inputs) -> None:
    if not is_for_each(at(inputs, 5), [s.total - 1 for s in lowering.samples]):
        raise DeclineError("seqlens_k is not the length of the sequence minus one")
    if not is_for_each(at(inputs, 6), [s.total for s in lowering.samples]):
        raise DeclineError("total_sequence_length is not the length of the sequence")


def _check_positions(lowering: Lowering, positions: Meaning | None) -> None:
    if not is_for_each(positions, [range(s.past, s.total) for s in lowering.samples]):
        raise DeclineError(f"positions are {describe(positions)} and do not count on from the past")


def _add_tables(
    lowering: Lowering, weights: _Weights, cos: Meaning | None, sin: Meaning | None, head_dim: int
) -> int:
    """Add rotary tables to the weights; returns how many columns of a head they rotate."""
    if isinstance(cos, Switched) and isinstance(sin, Switched):
        tables = {"cos": cos.short, "sin": sin.short, "cos_long": cos.long, "sin_long": sin.long}
    else:
        tables = {"cos": floats(cos, "cos_cache"), "sin": floats(sin, "sin_cache")}
    columns = {table.array.shape[-1] for table in tables.values()}
    half = columns.pop()
    if columns or any(t.array.ndim != 2 or t.transposed for t in tables.values()) or 2 * half > head_dim:
        raise DeclineError(
            f"rotary tables of {[t.array.shape for t in tables.values()]} for heads of {head_dim}"
        )
    for role, table in tables.items():
        _limit(lowering, role, table)
        weights[role] = (Vector(floats(table, role).stored), f"{role}_table")
    return 2 * half


def _limit(lowering: Lowering, role: str, table: Constant) -> None:
    # The short table is only read up to the switch.
    switched = lowering.switch_length is not None and not role.endswith("long")
    if not switched or table.array.shape[0] < (lowering.switch_length or 0):
        lowering.limit_positions(table.array.shape[0])


def _name(node: ir.Node, index: int) -> str:
    value = node.inputs[index]
    return (value.name if value is not None else None) or "vector"
