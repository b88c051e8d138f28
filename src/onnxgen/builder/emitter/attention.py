"""Attention: projections, head norms, and `GroupQueryAttention` with the rotation inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.builder.cache_names import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from onnxgen.builder.emitter.context import BATCH, PAST, SEQUENCE, TOTAL, Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.emitter.linear import project
from onnxgen.builder.emitter.mask import Lengths
from onnxgen.builder.emitter.norms import norm, norm_weight
from onnxgen.builder.emitter.rope import RopeTable
from onnxgen.builder.matrices import Rows
from onnxgen.errors import BuildError

if TYPE_CHECKING:
    import onnx_ir as ir

_HEAD_MULTIPLE = 8


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """What the attention of all layers takes.

    Attributes:
        lengths: Lengths of the sequences.
        positions: ``position_ids``, where queries and keys are rotated before attention; else None.
        tables: Rotary tables by their index in the specification.
        past: Past keys and values of each layer.
    """

    lengths: Lengths
    positions: ir.Value | None
    tables: Mapping[int, RopeTable]
    past: list[tuple[ir.Value, ir.Value]]


def declare_past(emission: Emission) -> list[tuple[ir.Value, ir.Value]]:
    """Declare the caches ``past_key_values.N.key`` and ``.value`` of all layers.

    Raises:
        BuildError: ``GroupQueryAttention`` has no kernel for heads of this size.
    """
    spec, graph = emission.spec, emission.graph
    if spec.head_dim % _HEAD_MULTIPLE:
        raise BuildError(
            f"head_dim is {spec.head_dim}; attention in ONNX Runtime takes multiples of {_HEAD_MULTIPLE} only"
        )
    shape = [BATCH, spec.kv_heads, PAST, spec.head_dim]
    return [
        (
            graph.input(PAST_KEY % index, graph.activation, shape),
            graph.input(PAST_VALUE % index, graph.activation, shape),
        )
        for index in range(len(spec.layers))
    ]


def attend(emission: Emission, index: int, x: ir.Value, shared: AttentionInputs) -> ir.Value:
    """Attention of a layer over its normed input ``[batch, seq, hidden]``; declares ``present.N``."""
    spec, graph = emission.spec, emission.graph
    path = f"/model/layers.{index}/attn"
    layer = spec.layers[index]
    table = shared.tables[layer.rope]
    query, key, value = _query_key_value(emission, index, x, apart=shared.positions is not None)
    if shared.positions is not None:
        assert key is not None
        rotary_dim = spec.ropes[layer.rope].rotary_dim
        query = _rotate(emission, f"{path}/q_rotary", query, shared.positions, table, rotary_dim, spec.heads)
        key = _rotate(emission, f"{path}/k_rotary", key, shared.positions, table, rotary_dim, spec.kv_heads)
    past_key, past_value = shared.past[index]
    cache = (graph.activation, [BATCH, spec.kv_heads, TOTAL, spec.head_dim])
    attended, present_key, present_value = graph.nodes(
        path,
        "GroupQueryAttention",
        [
            query,
            key,
            value,
            past_key,
            past_value,
            shared.lengths.seqlens_k,
            shared.lengths.total,
            *([table.cos, table.sin] if shared.positions is None else []),
        ],
        [(graph.activation, emission.stream(spec.query_width)), cache, cache],
        domain=CONTRIB,
        num_heads=spec.heads,
        kv_num_heads=spec.kv_heads,
        scale=spec.attention.scale,
        do_rotary=int(shared.positions is None),
        rotary_interleaved=0,
        local_window_size=layer.window or -1,
        softcap=spec.attention.softcap or 0.0,
    )
    graph.output(present_key, PRESENT_KEY % index)
    graph.output(present_value, PRESENT_VALUE % index)
    bias = [f"{emission.layer(index)}self_attn.o_proj.bias"] if spec.attention.output_bias else []
    rows = [Rows(f"{emission.layer(index)}self_attn.o_proj.weight", 0, spec.hidden, spec.hidden)]
    return project(emission, f"{path}/o_proj", attended, rows, spec.query_width, biases=bias)[0]


def _query_key_value(
    emission: Emission, index: int, x: ir.Value, *, apart: bool
) -> tuple[ir.Value, ir.Value | None, ir.Value | None]:
    """Query, key and value; packed in the first where one matrix makes all three and nobody needs them apart."""
    spec = emission.spec
    path = f"/model/layers.{index}/attn"
    rows, biases = _projection_rows(emission, index)
    projected = project(
        emission,
        f"{path}/qkv_proj",
        x,
        rows,
        spec.hidden,
        biases=biases,
        part_paths=[f"{path}/q_proj", f"{path}/k_proj", f"{path}/v_proj"],
    )
    if len(projected) == 1 and not (apart or spec.attention.qk_norm):
        return projected[0], None, None
    query, key, value = projected if len(projected) == 3 else _split(emission, path, projected[0])
    if not spec.attention.qk_norm:
        return query, key, value
    before = f"{emission.layer(index)}self_attn."
    return (
        _head_norm(emission, f"{path}/q_norm", query, f"{before}q_norm.weight", spec.heads),
        _head_norm(emission, f"{path}/k_norm", key, f"{before}k_norm.weight", spec.kv_heads),
        value,
    )


def _projection_rows(emission: Emission, index: int) -> tuple[list[Rows], list[str]]:
    spec = emission.spec
    before = f"{emission.layer(index)}self_attn."
    widths = {"q_proj": spec.query_width, "k_proj": spec.kv_width, "v_proj": spec.kv_width}
    if not spec.attention.fused_qkv:
        rows = [Rows(f"{before}{name}.weight", 0, width, width) for name, width in widths.items()]
        biases = [f"{before}{name}.bias" for name in widths] if spec.attention.qkv_bias else []
        return rows, biases
    total = sum(widths.values())
    return [Rows(f"{before}qkv_proj.weight", 0, total, total)], []


def _split(emission: Emission, path: str, packed: ir.Value) -> list[ir.Value]:
    spec, graph = emission.spec, emission.graph
    widths = [spec.query_width, spec.kv_width, spec.kv_width]
    return graph.nodes(
        f"{path}/qkv_proj",
        "Split",
        [packed, graph.integers(widths)],
        [(graph.activation, emission.stream(width)) for width in widths],
        axis=-1,
    )


def _rotate(
    emission: Emission,
    path: str,
    x: ir.Value,
    positions: ir.Value,
    table: RopeTable,
    rotary_dim: int,
    heads: int,
) -> ir.Value:
    """Rotate the leading dimensions of each head by its position."""
    partial = rotary_dim < emission.spec.head_dim
    return emission.graph.node(
        path,
        "RotaryEmbedding",
        [x, positions, table.cos, table.sin],
        shape=emission.stream(heads * emission.spec.head_dim),
        domain=CONTRIB,
        interleaved=0,
        num_heads=heads,
        rotary_embedding_dim=rotary_dim if partial else 0,
    )


def _head_norm(emission: Emission, path: str, x: ir.Value, tensor: str, heads: int) -> ir.Value:
    """Norm each head on its own. ONNX Runtime's CPU attention does not take these weights itself."""
    spec, graph = emission.spec, emission.graph
    weight = norm_weight(
        emission, tensor, spec.head_dim, name=f"{path.strip('/').replace('/', '.')}.layernorm.weight"
    )
    by_head = [BATCH, SEQUENCE, heads, spec.head_dim]
    split = graph.node(
        f"{path}/split_heads", "Reshape", [x, graph.integers([0, 0, heads, spec.head_dim])], shape=by_head
    )
    normed = norm(emission, path, split, weight, shape=by_head)
    width = heads * spec.head_dim
    return graph.node(
        f"{path}/join_heads",
        "Reshape",
        [normed, graph.integers([0, 0, width])],
        shape=emission.stream(width),
    )
