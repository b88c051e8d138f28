"""Batches without padding (BERT models of ``com.microsoft``), and biases by relative position."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.activations import sigmoid
from onnxgen.graph.cpu.attention_blocks import attended
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_bounds, checked_indices, scalar
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RemovePadding", 1, domain=MICROSOFT)
def remove_padding(node: NodeSpec) -> Kernel:
    """Tokens of all sequences one after the other, and where each was: those of padding at the end."""

    def run(x: np.ndarray, counts: np.ndarray) -> Any:
        batch, seq, width = x.shape
        if counts.shape != (batch,) or (counts < 0).any() or (counts > seq).any():
            raise KernelError(
                f"{node}: token counts {counts.tolist()} do not fit an input of shape {x.shape}"
            )
        real = np.arange(seq) < counts[:, None]
        offsets = np.concatenate([np.flatnonzero(real), np.flatnonzero(~real)]).astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        longest = np.array([counts.max(initial=0)], np.int32)
        packed = x.reshape(-1, width)[offsets[: ends[-1]]]
        return (packed, offsets.reshape(batch, seq), ends, longest)[: len(node.outputs)]

    return Kernel(run)


@TABLE.operator("RestorePadding", 1, domain=MICROSOFT)
def restore_padding(node: NodeSpec) -> Kernel:
    """Tokens back where they were, zeros elsewhere."""

    def run(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return _unpacked(node, x, offsets)

    return Kernel(run)


def _unpacked(node: NodeSpec, x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if len(x) > offsets.size:
        raise KernelError(f"{node}: {len(x)} tokens do not fit offsets {offsets.shape}")
    y = np.zeros((offsets.size, *x.shape[1:]), x.dtype)
    y[checked_indices(node, offsets.reshape(-1)[: len(x)], offsets.size, from_end=False)] = x
    return y.reshape(*offsets.shape, *x.shape[1:])


@TABLE.operator("PackedAttention", 1, domain=MICROSOFT)
def packed_attention(node: NodeSpec) -> Kernel:
    """Projects packed tokens; each attends to its own sequence."""
    heads = node.attr("num_heads")

    def run(
        x: np.ndarray,
        weights: np.ndarray,
        bias: np.ndarray,
        offsets: np.ndarray,
        ends: np.ndarray,
        attention_bias: np.ndarray | None = None,
    ) -> np.ndarray:
        sizes = node.attr("qkv_hidden_sizes") or (weights.shape[1] // 3,) * 3
        packed = widened(x) @ widened(weights) + widened(bias)
        parts = np.split(packed, np.cumsum(sizes)[:2], axis=1)
        return _per_sequence(node, parts, heads, ends, attention_bias).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("PackedMultiHeadAttention", 1, domain=MICROSOFT)
def packed_multi_head_attention(node: NodeSpec) -> Kernel:
    """The same over projected tokens, or ``[tokens, heads, 3, head_dim]`` with all three.

    There is nothing for ``mask_filter_value`` to fill: no sequence sees another.
    """
    heads = node.attr("num_heads")

    def run(
        query: np.ndarray,
        key: np.ndarray | None,
        value: np.ndarray | None,
        bias: np.ndarray | None,
        offsets: np.ndarray,
        ends: np.ndarray,
        attention_bias: np.ndarray | None = None,
    ) -> np.ndarray:
        if key is None or value is None:
            parts = [widened(query[:, :, part]).reshape(len(query), -1) for part in range(3)]
        else:
            parts = [widened(part) for part in (query, key, value)]
        if bias is not None:
            terms = np.split(widened(bias), np.cumsum([part.shape[1] for part in parts])[:2])
            parts = [part + term for part, term in zip(parts, terms, strict=True)]
        return _per_sequence(node, parts, heads, ends, attention_bias).astype(query.dtype, copy=False)

    return Kernel(run)


def _per_sequence(
    node: NodeSpec, parts: list[np.ndarray], heads: int, ends: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    q, k, v = (
        part.reshape(len(part), heads, -1).swapaxes(0, 1) for part in parts
    )  # [heads, tokens, head_dim]
    y = np.empty(v.shape, v.dtype)
    for index, (start, end) in enumerate(pairwise(checked_bounds(node, ends, q.shape[1]))):
        span, length = slice(start, end), end - start
        row = None if bias is None else widened(bias[index if len(bias) > 1 else 0])[:, :length, :length]
        scale = node.attr("scale", 0.0) or q.shape[2] ** -0.5
        parts_of_sequence = (part[None, :, span] for part in (q, k, v))
        attended(*parts_of_sequence, scale=scale, mask=row, out=y[None, :, span])
    return y.swapaxes(0, 1).reshape(y.shape[1], -1)


@TABLE.operator("RelativePositionBias", 1, domain=MICROSOFT)
def relative_position_bias(node: NodeSpec) -> Kernel:
    """T5's: a row of the table for each bucket of distances, exact when near and logarithmic when far."""
    both_ways, farthest = bool(node.attr("is_bidirectional", 0)), node.attr("max_distance")

    def run(table: np.ndarray, query_length: np.ndarray, key_length: np.ndarray) -> np.ndarray:
        rows, columns = (
            int(scalar(node, query_length, "query_length")),
            int(scalar(node, key_length, "key_length")),
        )
        if rows < 0 or columns < 0:
            raise KernelError(f"{node}: lengths {rows} and {columns} must not be negative")
        require_memory(node, (max(3, table.shape[1]), rows, columns), np.dtype(np.int64))
        distance = np.arange(rows)[:, None] - np.arange(columns)[None]
        buckets = len(table) // 2 if both_ways else len(table)
        start = np.where(distance < 0, buckets, 0) if both_ways else 0
        distance = np.abs(distance) if both_ways else np.maximum(distance, 0)
        exact = buckets // 2
        far = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.log(
            np.float32(farthest) / exact
        )
        far = np.minimum(exact + (far * (buckets - exact)).astype(np.int64), buckets - 1)
        return table[start + np.where(distance < exact, distance, far)].transpose(2, 0, 1)[None].copy()

    return Kernel(run)


@TABLE.operator("GatedRelativePositionBias", 1, domain=MICROSOFT)
def gated_relative_position_bias(node: NodeSpec) -> Kernel:
    """WavLM's: the bias of relative positions times a gate of each query."""
    heads = node.attr("num_heads")

    def run(
        query: np.ndarray,
        query_bias: np.ndarray,
        positions: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray,
        eco_a: np.ndarray,
        offsets: np.ndarray | None = None,
    ) -> np.ndarray:
        x = widened(query) + widened(query_bias)
        x = x if offsets is None else _unpacked(node, x, offsets)
        batch, seq, hidden = x.shape
        x = x.reshape(batch, seq, heads, hidden // heads).swapaxes(1, 2)
        gates = x @ widened(weight) + widened(bias)  # [batch, heads, seq, 2 * half]
        u, r = np.moveaxis(sigmoid(gates.reshape(batch, heads, seq, 2, -1).sum(-1)), -1, 0)[..., None]
        gate = u * (r * widened(eco_a) - 1) + 2
        return (gate * widened(positions)).astype(query.dtype, copy=False)

    return Kernel(run)
