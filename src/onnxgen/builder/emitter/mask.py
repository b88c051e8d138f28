"""Lengths from the attention mask, as `GroupQueryAttention` wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.builder.emitter.context import BATCH, TOTAL, Emission

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of the sequences of a batch.

    Attributes:
        seqlens_k: Tokens of each sequence, minus one, int32 ``[batch]``.
        total: Longest sequence with its padding, int32 scalar.
        longest: Longest sequence without padding, minus one, int32 scalar; None where nobody asks.
    """

    seqlens_k: ir.Value
    total: ir.Value
    longest: ir.Value | None


def lengths(emission: Emission, *, longest: bool) -> Lengths:
    """Declare the mask and take the lengths from it."""
    import onnx_ir as ir

    graph = emission.graph
    int32, int64 = ir.DataType.INT32, ir.DataType.INT64
    path = "/model/attn_mask_reformat/attn_mask_subgraph"
    mask = graph.input("attention_mask", int64, [BATCH, TOTAL])
    tokens = graph.node(
        path, "ReduceSum", [mask, graph.integers([1])], dtype=int64, shape=[BATCH], keepdims=0
    )
    last = graph.node(path, "Sub", [tokens, graph.integers([1])], dtype=int64, shape=[BATCH])
    seqlens_k = graph.node(f"{path}/Sub", "Cast", [last], dtype=int32, shape=[BATCH], to=int32)
    shape = graph.node(path, "Shape", [mask], dtype=int64, shape=[2])
    width = graph.node(path, "Gather", [shape, graph.integers(1)], dtype=int64, shape=[], axis=0)
    total = graph.node(f"{path}/Gather", "Cast", [width], dtype=int32, shape=[], to=int32)
    most = None
    if longest:
        most = graph.node(f"{path}/longest", "ReduceMax", [seqlens_k], dtype=int32, shape=[], keepdims=0)
    return Lengths(seqlens_k, total, most)
