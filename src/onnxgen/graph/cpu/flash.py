"""Attention by compiled blocks: float32 arithmetic over keys and values in the types that caches have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.head_rows import ELEMENT_KINDS
from onnxgen.graph.cpu.team import WORTH_SHARING_S, share

_OPERATIONS_PER_S, _BYTES_PER_S = 60e9, 25e9
"""Of one thread, roughly: to tell what is worth sharing."""

_BLOCK_ROWS = 128
"""Rows of queries that pass over a block of keys together."""

_FEWEST_PARTS, _FEWEST_KEYS = 8, 256
"""Into so many parts at least work is cut, along the keys too where there are many."""

_LANES, _KEY_BLOCK = 16, 128


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores are made and what they may see.

    Attributes:
        scale: Their factor.
        softcap: ``softcap * tanh(scores / softcap)`` where it is positive.
        left: How many keys before its own a query sees; None for all.
        right: How many keys behind its own a query sees; None for all, 0 for causal attention.
        sink: float32 ``[heads]``, a score more in each row's denominator, without a value.
        key_scale: float32 ``[kv_heads, head_dim]``, what stored keys are multiplied by.
        value_scale: float32 ``[kv_heads, v_head_dim]``, likewise.
    """

    scale: float
    softcap: float = 0.0
    left: int | None = None
    right: int | None = None
    sink: np.ndarray | None = None
    key_scale: np.ndarray | None = None
    value_scale: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Paging:
    """Keys and values in blocks.

    Attributes:
        table: int32 ``[batch, blocks]``: ids of blocks, negative where there is none; C-contiguous.
        block_size: Rows of a block.
    """

    table: np.ndarray
    block_size: int


def can_attend(*arrays: np.ndarray) -> bool:
    """Whether keys and values have types and strides that can be read."""
    return all(x.dtype in ELEMENT_KINDS and x.strides[-1] == x.itemsize for x in arrays)


def flash_attend(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    output: np.ndarray,
    scoring: Scoring,
    *,
    num_keys: Sequence[int],
    first_positions: Sequence[int],
    num_queries: Sequence[int] | None = None,
    first_queries: Sequence[int] | None = None,
    bias: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    paging: Paging | None = None,
) -> None:
    """Attend with each query head to the keys of its group; queries that see no key get zeros.

    Last axes lie side by side, everything else may have any strides.

    Args:
        query: float32 ``[batch, seq, heads, head_dim]``, or ``[1, tokens, heads, head_dim]`` with ``first_queries``.
        keys: ``[batch, kv_heads, rows, head_dim]`` of a type that `can_attend`, or ``[1, kv_heads, all rows of
            blocks, head_dim]`` with ``paging``. 4-bit rows are half as long.
        values: ``[batch, kv_heads, rows, v_head_dim]``, likewise.
        output: float32 like the query, ``v_head_dim`` wide; rows beyond ``num_queries`` stay as they are.
        scoring: See `Scoring`.
        num_keys: Of each sequence.
        first_positions: The position of each sequence's first query among its keys.
        num_queries: Of each sequence; all of ``seq`` by default.
        first_queries: Where each sequence's tokens begin.
        bias: float32 ``[1 or batch, 1 or heads, 1 or seq, keys]``, added to scores.
        mask: bool, likewise: which keys are seen.
        paging: Where rows are, if not one after the other.
    """
    from onnxgen.graph.cpu.compiled.flash_attention import attention, joined
    from onnxgen.graph.cpu.compiled.flash_records import SEQUENCE, SETTINGS, UNBOUNDED

    batch, (heads, head_dim) = len(num_keys), query.shape[2:]
    kv_heads, value_dim = keys.shape[1], output.shape[3]
    counts = [query.shape[1]] * batch if num_queries is None else num_queries
    starts = [0] * batch if first_queries is None else first_queries
    query_batch, query_row, query_head, _ = query.strides
    output_batch, output_row, output_head, _ = output.strides
    key_batch, key_head, key_row, _ = keys.strides
    value_batch, value_head, value_row, _ = values.strides
    if first_queries is not None:
        query_batch = output_batch = 0
    if paging is not None:
        key_batch = value_batch = 0
    query_at, output_at, keys_at, values_at = (x.ctypes.data for x in (query, output, keys, values))
    table_at, blocks, block_size = (
        (0, 0, 0) if paging is None else (paging.table.ctypes.data, paging.table.shape[1], paging.block_size)
    )
    bias_at, bias_batch, bias_head, bias_row = _added(bias)
    mask_at, mask_batch, mask_head, mask_row = _added(mask)
    sequences = np.empty(batch, SEQUENCE)
    for i in range(batch):
        sequences[i] = (
            *(query_at + i * query_batch + starts[i] * query_row, query_row, query_head, counts[i]),
            *(output_at + i * output_batch + starts[i] * output_row, output_row, output_head),
            *(keys_at + i * key_batch, key_row, key_head, num_keys[i], first_positions[i]),
            *(values_at + i * value_batch, value_row, value_head),
            *(table_at + 4 * i * blocks, blocks, block_size),
            *(bias_at + i * bias_batch, bias_row, bias_head),
            *(mask_at + i * mask_batch, mask_row, mask_head),
        )
    most_rows, most_keys = max(counts) * (heads // kv_heads), max(num_keys)
    if not most_rows:
        return
    block_rows = min(most_rows, _BLOCK_ROWS)
    row_blocks = -(-most_rows // block_rows)
    parts = row_blocks * batch * kv_heads
    width = head_dim + value_dim
    seconds = sum(
        length * width * max(2 * heads * count / _OPERATIONS_PER_S, 4 * kv_heads / _BYTES_PER_S)
        for count, length in zip(counts, num_keys, strict=True)
    )
    splits = 1
    if seconds > WORTH_SHARING_S and parts < _FEWEST_PARTS:
        splits = max(1, min(-(-_FEWEST_PARTS // parts), most_keys // _FEWEST_KEYS))
    split_keys = -(-most_keys // (splits * _KEY_BLOCK)) * _KEY_BLOCK
    settings = np.empty(1, SETTINGS)
    settings[0] = (
        *(heads, kv_heads, head_dim, value_dim),
        UNBOUNDED if scoring.left is None else scoring.left,
        UNBOUNDED if scoring.right is None else scoring.right,
        *(ELEMENT_KINDS[keys.dtype], ELEMENT_KINDS[values.dtype]),
        *(0 if x is None else x.ctypes.data for x in (scoring.key_scale, scoring.value_scale, scoring.sink)),
        *(block_rows, row_blocks, splits, split_keys, scoring.scale, scoring.softcap),
    )
    padded_dim = -(-value_dim // (2 * _LANES)) * 2 * _LANES
    partial = np.empty((parts * splits if splits > 1 else 0, block_rows, padded_dim + 2), np.float32)
    share(attention(), sequences, settings, partial, parts=parts * splits, seconds=seconds)
    if splits > 1:
        joined()(sequences, settings, partial)


def _added(x: np.ndarray | None) -> tuple[int, int, int, int]:
    """Where it lies, and bytes from one batch, head and row to the next."""
    if x is None:
        return 0, 0, 0, 0
    batch, heads, rows = (
        0 if size == 1 else stride for size, stride in zip(x.shape[:3], x.strides[:3], strict=True)
    )
    return x.ctypes.data, batch, heads, rows
