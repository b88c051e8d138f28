"""Attention whose scores never exist all at once: blocks of keys pass by blocks of queries.

A block of rows (a row is a query head of a query; the heads that share a key head lie together) keeps for each row the
largest score so far, the sum of its exponentials, and the values weighted by these; a larger score rescales both.

    row         0 1 2 | 3 4 5 | 6 ...        query 0, heads 0 1 2 of the group | query 1 | ...
    keys        first_key ... [block] [block] ... last_key, each row within its own bounds

Few rows take dot products with keys as they lie; many are worth the keys' transposition.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled import functions
from onnxgen.graph.cpu.compiled.flash_cache import NOWHERE, hide_missing, key_address, lies_well, widen_block
from onnxgen.graph.cpu.compiled.flash_products import add_values, scores_of_few, scores_of_many
from onnxgen.graph.cpu.compiled.flash_records import FEW_ROWS, KEY_BLOCK, SEQUENCE, SETTINGS
from onnxgen.graph.cpu.compiled.flash_softmax import absorb, scale_row
from onnxgen.graph.cpu.compiled.function import address, compiled, inline, leaf, lives_until_here, written
from onnxgen.graph.cpu.compiled.kernel import floats
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.widening import FLOAT, widen_row

_BYTES = 4
_LOWEST = np.float32(-np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)


@cache
def attention() -> Callable[..., None]:
    """``attention(sequences, settings, partial, parts, claims)``: see `flash_records`; settings are an array of one.

    ``partial`` is float32 ``[parts, block_rows, padded value_dim + 2]`` where there are several splits: the weighted
    values, the largest score and the sum of exponentials, for `joined` to put together.
    """

    def attend(sequences: Any, settings: Any, partial: Any, parts: int, claims: Any) -> None:
        same = settings[0]
        group = same.heads // same.kv_heads
        width, value_width = padded(same.head_dim, LANES), padded(same.value_dim, 2 * LANES)
        most_rows = padded(same.block_rows, FEW_ROWS)
        wide_keys_size, wide_values_size = KEY_BLOCK * width, KEY_BLOCK * value_width
        q_size, scores_size, output_size = most_rows * width, most_rows * KEY_BLOCK, most_rows * value_width
        memory = np.empty(
            q_size
            + 2 * wide_keys_size
            + wide_values_size
            + scores_size
            + output_size
            + 2 * most_rows
            + 2 * LANES,
            np.float32,
        )
        q = padded(address(memory), _BYTES * LANES)
        scores = q + _BYTES * q_size
        output = scores + _BYTES * scores_size
        wide_keys = output + _BYTES * output_size
        turned = wide_keys + _BYTES * wide_keys_size
        wide_values = turned + _BYTES * wide_keys_size
        spare = wide_values + _BYTES * wide_values_size
        peaks = floats(spare + _BYTES * LANES, most_rows)
        sums = floats(spare + _BYTES * (LANES + most_rows), most_rows)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            split, rest = part % same.splits, part // same.splits
            head, rest = rest % same.kv_heads, rest // same.kv_heads
            sequence = sequences[rest % len(sequences)]
            # The last rows see the most keys, so they are begun first.
            first_row = (same.row_blocks - 1 - rest // len(sequences)) * same.block_rows
            rows = min(sequence.num_queries * group - first_row, same.block_rows)
            if rows <= 0:
                continue
            computed_rows = padded(rows, FEW_ROWS)
            if rows <= 2:
                computed_rows = rows
            elif rows <= 4:
                computed_rows = 4
            first_position = sequence.first_position + first_row // group
            last_position = sequence.first_position + (first_row + rows - 1) // group
            first_key = max(first_position - same.left, 0) // KEY_BLOCK * KEY_BLOCK
            last_key = min(sequence.num_keys, last_position + same.right + 1)
            if same.splits > 1:
                first_key = max(first_key, split * same.split_keys)
                last_key = min(last_key, (split + 1) * same.split_keys)
            for r in range(padded(rows, FEW_ROWS)):
                if r < rows:
                    _take_query(sequence, same, first_row + r, head, q + _BYTES * r * width, spare)
                else:
                    floats(q + _BYTES * r * width, width)[:] = _ZERO
                begins = same.sink and split == 0 and r < rows
                query_head = head * group + (first_row + r) % group
                peaks[r] = floats(same.sink, same.heads)[query_head] if begins else _LOWEST
                sums[r] = _ONE if begins else _ZERO
                floats(output + _BYTES * r * value_width, value_width)[:] = _ZERO

            direct_keys = lies_well(sequence, same.key_kind, same.head_dim, width)
            direct_values = lies_well(sequence, same.value_kind, same.value_dim, value_width)
            # Tiles of many rows read values again and again: rows far apart would fall on the same lines of the cache.
            direct_values &= rows <= FEW_ROWS or sequence.value_row == _BYTES * value_width
            key_0 = sequence.keys + head * sequence.key_head
            value_0 = sequence.values + head * sequence.value_head
            for start in range(first_key, last_key, KEY_BLOCK):
                keys = min(KEY_BLOCK, last_key - start)
                horizon = sequence.first_position + same.right + 1 - start
                read_keys = padded(keys, LANES)
                k, key_row = key_address(sequence, key_0, sequence.key_row, start), sequence.key_row
                if not direct_keys or k == NOWHERE or read_keys != keys:
                    k, key_row = wide_keys, _BYTES * width
                    widen_block(
                        sequence,
                        same.key_kind,
                        key_0,
                        sequence.key_row,
                        start,
                        keys,
                        same.head_dim,
                        width,
                        k,
                        spare,
                    )
                if rows <= FEW_ROWS:
                    scores_of_few(computed_rows, q, k, key_row, scores, read_keys, width)
                else:
                    scores_of_many(
                        computed_rows,
                        q,
                        k,
                        key_row,
                        turned,
                        scores,
                        read_keys,
                        width,
                        same.head_dim,
                        horizon,
                        first_row,
                        group,
                    )
                if sequence.blocks:
                    hide_missing(sequence, scores, rows, start, keys)
                absorb(
                    scores,
                    rows,
                    keys,
                    start,
                    horizon,
                    first_row,
                    head,
                    sequence,
                    same,
                    peaks,
                    sums,
                    output,
                    value_width,
                )
                v, value_row = key_address(sequence, value_0, sequence.value_row, start), sequence.value_row
                if not direct_values or v == NOWHERE:
                    v, value_row = wide_values, _BYTES * value_width
                    widen_block(
                        sequence,
                        same.value_kind,
                        value_0,
                        sequence.value_row,
                        start,
                        keys,
                        same.value_dim,
                        value_width,
                        v,
                        spare,
                    )
                add_values(
                    computed_rows,
                    scores,
                    v,
                    value_row,
                    output,
                    value_width,
                    keys,
                    horizon,
                    first_row,
                    group,
                )

            for r in range(rows):
                weighted = floats(output + _BYTES * r * value_width, value_width)
                if same.splits > 1:
                    partial[part, r, :value_width] = weighted
                    partial[part, r, value_width] = peaks[r]
                    partial[part, r, value_width + 1] = sums[r]
                else:
                    _give_output(sequence, same, first_row + r, head, weighted, sums[r])
        lives_until_here(memory)

    return compiled(
        attend,
        [
            *(written(SEQUENCE, 1), written(SETTINGS, 1), written(np.float32, 3)),
            *(types.intp, written(np.int64, 1)),
        ],
    )


@cache
def joined() -> Callable[..., None]:
    """``joined(sequences, settings, partial)``: the output from what `attention` found in several ranges of keys."""

    def join(sequences: Any, settings: Any, partial: Any) -> None:
        same = settings[0]
        value_width = partial.shape[2] - 2
        for part in range(0, len(partial), same.splits):
            rest = part // same.splits
            head, rest = rest % same.kv_heads, rest // same.kv_heads
            sequence = sequences[rest % len(sequences)]
            first_row = (same.row_blocks - 1 - rest // len(sequences)) * same.block_rows
            rows = min(sequence.num_queries * (same.heads // same.kv_heads) - first_row, same.block_rows)
            for r in range(rows):
                peak = _LOWEST
                for split in range(same.splits):
                    peak = max(peak, partial[part + split, r, value_width])
                weighted, summed = partial[part, r, :value_width], _ZERO
                for split in range(same.splits):
                    row = partial[part + split, r]
                    factor = functions.exp(row[value_width] - (_ZERO if peak == _LOWEST else peak))
                    summed += factor * row[value_width + 1]
                    for i in range(value_width):
                        weighted[i] = factor * row[i] + (weighted[i] if split else _ZERO)
                _give_output(sequence, same, first_row + r, head, weighted, summed)

    return compiled(join, [written(SEQUENCE, 1), written(SETTINGS, 1), written(np.float32, 3)])


@inline
def padded(size: int, multiple: int) -> int:
    """The next multiple."""
    return (size + multiple - 1) // multiple * multiple


@leaf
def _take_query(sequence: Any, same: Any, row: int, head: int, target: int, spare: int) -> None:
    """A row of queries, scaled, with zeros up to a multiple of `LANES`."""
    group = same.heads // same.kv_heads
    source = (
        sequence.queries
        + row // group * sequence.query_row
        + (head * group + row % group) * sequence.query_head
    )
    widen_row(FLOAT, source, same.head_dim, target, spare)
    scale_row(target, padded(same.head_dim, LANES), same.scale)
    if same.key_scale:
        values = floats(target, same.head_dim)
        factors = floats(same.key_scale + _BYTES * head * same.head_dim, same.head_dim)
        for i in range(same.head_dim):
            values[i] *= factors[i]


@leaf
def _give_output(sequence: Any, same: Any, row: int, head: int, weighted: Any, summed: Any) -> None:
    """Write the output of a row: zeros where it saw no key."""
    group = same.heads // same.kv_heads
    factor = _ZERO if summed == _ZERO else _ONE / summed
    target = floats(
        sequence.output
        + row // group * sequence.output_row
        + (head * group + row % group) * sequence.output_head,
        same.value_dim,
    )
    for i in range(same.value_dim):
        target[i] = weighted[i] * factor
    if same.value_scale:
        factors = floats(same.value_scale + _BYTES * head * same.value_dim, same.value_dim)
        for i in range(same.value_dim):
            target[i] *= factors[i]
