"""Rotary tables in the graph: stored once for each distinct embedding, chosen by length for LongRoPE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.mask import Lengths
from onnxgen.builder.rope_tables import Frequencies, frequencies, long_frequencies, table_rows
from onnxgen.builder.spec import LongRopeScaling, RopeSpec

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Cosines and sines ``[positions, rotary_dim / 2]`` in the activations' type."""

    cos: ir.Value
    sin: ir.Value


def rope_tables(emission: Emission, lengths: Lengths) -> dict[int, RopeTable]:
    """Store the tables of the rotary embeddings that layers use, by their index in the specification."""
    used = {layer.rope for layer in emission.spec.layers}
    return {
        index: _table(emission, rope, lengths, suffix=f"_{index}" if len(used) > 1 else "")
        for index, rope in enumerate(emission.spec.ropes)
        if index in used
    }


def _table(emission: Emission, rope: RopeSpec, lengths: Lengths, *, suffix: str) -> RopeTable:
    context = emission.spec.context
    divisors = None
    if rope.factors_tensor is not None:
        divisors = emission.matrices.vector(rope.factors_tensor, rope.rotary_dim // 2)
    angles = frequencies(rope, divisors=divisors)
    if rope.longrope is None:
        return _store(emission, angles, rows=context, magnitude=rope.magnitude, suffix=suffix)
    magnitude = rope.longrope.short_magnitude
    if emission.spec.rope_switch_length is None:
        return _store(emission, angles, rows=context, magnitude=magnitude, suffix=suffix)
    # As long as the other, though only its first positions are rotated by it: attention refuses a table
    # that is shorter than the cache, and a shared cache may have room for more than it holds.
    short = _store(emission, angles, rows=context, magnitude=magnitude, suffix=f"{suffix}_small")
    long = _store(
        emission,
        long_frequencies(rope),
        rows=context,
        magnitude=rope.longrope.long_magnitude,
        suffix=f"{suffix}_large",
    )
    assert lengths.longest is not None
    return _choose(emission, short, long, lengths.longest, rope.longrope, suffix=suffix)


def _store(emission: Emission, angles: Frequencies, *, rows: int, magnitude: float, suffix: str) -> RopeTable:
    graph = emission.graph
    values: list[ir.Value] = []
    for sine in (False, True):
        name = f"{'sin' if sine else 'cos'}_cache{suffix}"
        pieces = table_rows(angles, rows=rows, magnitude=magnitude, sine=sine)
        tensor = emission.data.append(
            name,
            (piece.astype(emission.activation) for piece in pieces),
            dtype=graph.activation,
            shape=(rows, angles.size),
        )
        values.append(graph.weight(name, tensor))
    return RopeTable(values[0], values[1])


def _choose(
    emission: Emission,
    short: RopeTable,
    long: RopeTable,
    longest: ir.Value,
    rope: LongRopeScaling,
    *,
    suffix: str,
) -> RopeTable:
    """The long table where a sequence is longer than the original context (``longest`` is one less)."""
    import onnx_ir as ir

    graph = emission.graph
    path = f"/model/rope_caches_subgraph{suffix}"
    limit = graph.weight(
        f"{path}/limit", ir.Tensor(np.asarray(rope.original_context, dtype=np.int32), name=f"{path}/limit")
    )
    beyond = graph.node(path, "GreaterOrEqual", [longest, limit], dtype=ir.DataType.BOOL, shape=[])
    kind = (graph.activation, [emission.spec.context, len(rope.long_factors)])
    cos, sin = graph.nodes(
        path,
        "If",
        [beyond],
        [kind, kind],
        then_branch=_branch(long, f"{path}/long"),
        else_branch=_branch(short, f"{path}/short"),
    )
    return RopeTable(cos, sin)


def _branch(table: RopeTable, name: str) -> ir.Graph:
    import onnx_ir as ir

    nodes: list[ir.Node] = []
    for part, value in (("cos", table.cos), ("sin", table.sin)):
        output = ir.Value(name=f"{name}/{part}", type=value.type, shape=value.shape)
        nodes.append(ir.node("Identity", [value], outputs=[output], name=f"{name}/{part}/Identity"))
    return ir.Graph([], [node.outputs[0] for node in nodes], nodes=nodes, name=name)
