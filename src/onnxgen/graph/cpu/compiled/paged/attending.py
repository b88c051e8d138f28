"""Causal grouped-query attention over pages: the kernel that does one work item after another.

For each split of 256 keys, each tile of 64 keys in it, and each block of rows: scores as integers, weights as integers, weighted
values as integers. A row's arithmetic is the same whichever rows are beside it: keys that it does not see leave no trace, and tiles
and splits begin at the same positions always. So decoding a token, or computing it in a prompt of any chunks, gives the same bits.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.atomics import atomic_add, atomic_store
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.compiled.kernel import float_word, floats, ints32, ints64, word
from onnxgen.graph.cpu.compiled.paged import layout
from onnxgen.graph.cpu.compiled.paged.arguments import ATTEND, words
from onnxgen.graph.cpu.compiled.paged.blocking import blocking
from onnxgen.graph.cpu.compiled.paged.items import ITEM_BYTES, MOST_ROWS, Item
from onnxgen.graph.cpu.compiled.paged.merging import STATE_BYTES, clear_of, close, finish_of, merge_of
from onnxgen.graph.cpu.compiled.paged.numbers import LOWEST, SPLIT_KEYS, TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.scores import SCORE_BYTES, scores_of
from onnxgen.graph.cpu.compiled.paged.values import WEIGHT_BYTES, values_of
from onnxgen.graph.cpu.compiled.paged.weights import weights_of
from onnxgen.graph.cpu.compiled.vectors import VECTOR_BYTES
from onnxgen.graph.cpu.isa import Isa

_QUERIES, _SCALES, _PAGES, _BLOCK_BYTES, _OUT, _STRIDE, _GROUP, _WINDOW, _CAP, _SINKS, _ITEMS, _PARTIALS = (
    words(
        ATTEND,
        *("queries", "query_scales", "pages", "block_bytes", "out", "out_stride"),
        *("group", "window", "softcap", "sinks", "items", "partials"),
    )
)

_LOG2_E = np.float32(math.log2(math.e))
_GROUPS = TILE_KEYS // layout.TILE_TOKENS


def attend(*, isa: str, head_dim: int, value_dim: int, softcap: bool) -> Callable[..., None]:
    """The kernel; its arguments are `arguments.ATTEND`."""
    target, most = Isa(isa), blocking(Isa(isa)).rows
    shape = blocking(target)
    scores = scores_of(target, shape, head_dim)
    weigh_all = weights_of(target, softcap=softcap, masked=False)
    weigh_seen = weights_of(target, softcap=softcap, masked=True)
    add_values = values_of(target, shape, value_dim)
    clear, merge, finish = clear_of(value_dim), merge_of(target, value_dim), finish_of(target, value_dim)
    tile_bytes, values_at = layout.tile_bytes(head_dim, value_dim), layout.values_offset(head_dim)
    sums_bytes = 4 * value_dim
    partial_bytes = sums_bytes + VECTOR_BYTES

    # A thread's scratch: what one block of rows needs, then state and sums of a split, then those of all splits so far.
    keys_at = 0
    value_tiles_at = keys_at + 8 * _GROUPS
    fades_at = value_tiles_at + 8 * _GROUPS
    scales_at = fades_at + VECTOR_BYTES
    scores_at = scales_at + 3 * 4 * TILE_KEYS
    weights_at = scores_at + most * SCORE_BYTES
    states_at = weights_at + most * WEIGHT_BYTES
    sums_at = states_at + MOST_ROWS * STATE_BYTES
    totals_at = sums_at + MOST_ROWS * sums_bytes
    total_sums_at = totals_at + MOST_ROWS * STATE_BYTES

    @inline
    def find_tiles(row: int, step: int, item: int, scratch: int, key: int, low: int, end: int) -> None:
        """Addresses and scales of the 64 keys from ``key`` on; beyond what is seen, ``low`` to ``end``, any are as good."""
        width, block_size = word(step, _TABLE_WIDTH), word(step, _BLOCK_SIZE)
        blocks = ints32(word(step, _BLOCK_TABLE) + 4 * width * word(item, _SEQ), width)
        head = word(item, _KV_HEAD) * (block_size // _TOKENS) * tile_bytes
        places, value_places = ints64(scratch + keys_at, _GROUPS), ints64(scratch + value_tiles_at, _GROUPS)
        copied = ints64(scratch + scales_at, 3 * TILE_KEYS // 2)
        first, last = low // _TOKENS * _TOKENS, (end - 1) // _TOKENS * _TOKENS
        for index in range(_GROUPS):
            token = min(max(key + index * _TOKENS, first), last)
            block, offset = token // block_size, token % block_size
            place = word(row, _PAGES) + blocks[block] * word(row, _BLOCK_BYTES) + head
            place += offset // _TOKENS * tile_bytes
            places[index], value_places[index] = place + _KEYS, place + values_at
            stored = ints64(place, 3 * _TOKENS // 2)
            for kind in range(3):
                for pair in range(_TOKENS // 2):
                    copied[kind * TILE_KEYS // 2 + index * _TOKENS // 2 + pair] = stored[
                        kind * _TOKENS // 2 + pair
                    ]

    @inline
    def attend_block(
        row: int,
        scratch: int,
        key: int,
        queries: int,
        scales: Any,
        begin: int,
        count: int,
        group: int,
        first_row: int,
        context: int,
    ) -> None:
        """Rows ``begin`` to ``begin + count`` of the item and the keys of the tile."""
        window = word(row, _WINDOW)
        earliest = context + (first_row + begin) // group
        latest = context + (first_row + begin + count - 1) // group
        if key > latest or key + TILE_KEYS + window <= earliest + 1:
            return
        seen_by_all = key + TILE_KEYS <= earliest + 1 and key + window > latest
        scores(count, queries + begin * 2 * head_dim, scratch + keys_at, scratch + scores_at)
        fades = floats(scratch + fades_at, count)
        cap = float_word(row, _CAP) * _LOG2_E
        for index in range(count):
            state = scratch + states_at + (begin + index) * STATE_BYTES
            arguments = (
                scratch + scores_at + index * SCORE_BYTES,
                scales[begin + index],
                cap,
                scratch + scales_at,
                state,
                scratch + weights_at + index * WEIGHT_BYTES,
            )
            position = context + (first_row + begin + index) // group
            if seen_by_all:
                fades[index] = weigh_all(*arguments, 0, 0)
            else:
                fades[index] = weigh_seen(*arguments, max(position + 1 - window - key, 0), position + 1 - key)
        add_values(
            count,
            scratch + weights_at,
            scratch + fades_at,
            scratch + value_tiles_at,
            scratch + sums_at + begin * sums_bytes,
        )

    @inline
    def write_rows(row: int, step: int, item: int, scratch: int) -> None:
        """The item's totals, divided, to where they belong."""
        group, first_row = word(row, _GROUP), word(item, _FIRST_ROW)
        token = ints32(word(step, _CU_SEQLENS), word(item, _SEQ) + 1)[word(item, _SEQ)]
        sinks = word(row, _SINKS)
        for index in range(word(item, _NUM_ROWS)):
            head = word(item, _KV_HEAD) * group + (first_row + index) % group
            extra = np.float32(LOWEST)
            if sinks != 0:
                extra = floats(sinks, head + 1)[head] * _LOG2_E
            out = (
                word(row, _OUT)
                + (token + (first_row + index) // group) * word(row, _STRIDE)
                + head * sums_bytes
            )
            finish(
                scratch + totals_at + index * STATE_BYTES,
                scratch + total_sums_at + index * sums_bytes,
                extra,
                out,
            )

    @inline
    def merge_family(row: int, item: int, scratch: int) -> None:
        """Totals of all splits of the item's family, in their order."""
        rows = word(item, _NUM_ROWS)
        splits = word(item, _FAMILY_END) - word(item, _FAMILY_FIRST)
        partials = word(row, _PARTIALS) + word(item, _PARTIAL) * partial_bytes
        for index in range(rows):
            total, sums = (
                scratch + totals_at + index * STATE_BYTES,
                scratch + total_sums_at + index * sums_bytes,
            )
            for split in range(splits):
                partial = partials + (split * rows + index) * partial_bytes
                merge(total, sums, partial + sums_bytes, partial)

    @inline
    def keep_split(row: int, item: int, scratch: int, split: int) -> None:
        """A split's results, to the partial results or to the totals."""
        rows, partial = word(item, _NUM_ROWS), word(item, _PARTIAL)
        place = word(row, _PARTIALS) + (partial + (split - word(item, _FAMILY_FIRST)) * rows) * partial_bytes
        for index in range(rows):
            state, sums = scratch + states_at + index * STATE_BYTES, scratch + sums_at + index * sums_bytes
            close(state)
            if partial < 0:
                merge(
                    scratch + totals_at + index * STATE_BYTES,
                    scratch + total_sums_at + index * sums_bytes,
                    state,
                    sums,
                )
            else:
                source, target = floats(sums, value_dim), floats(place + index * partial_bytes, value_dim + 2)
                for dimension in range(value_dim):
                    target[dimension] = source[dimension]
                target[value_dim], target[value_dim + 1] = floats(state, 2)[0], floats(state, 2)[1]

    @inline
    def attend_item(row: int, step: int, item: int, scratch: int) -> None:
        group, rows, first_row = word(row, _GROUP), word(item, _NUM_ROWS), word(item, _FIRST_ROW)
        seq, window = word(item, _SEQ), word(row, _WINDOW)
        context = ints32(word(step, _CONTEXT_LENS), seq + 1)[seq]
        before = (
            word(item, _KV_HEAD) * word(step, _TOKENS_WORD) + ints32(word(step, _CU_SEQLENS), seq + 1)[seq]
        ) * group
        queries = word(row, _QUERIES) + (before + first_row) * 2 * head_dim
        scales = floats(word(row, _SCALES) + 4 * (before + first_row), rows)
        low = max(context + first_row // group + 1 - window, 0)
        end = context + (first_row + rows - 1) // group + 1
        blocks = (rows + most - 1) // most
        for index in range(rows):
            clear(scratch + totals_at + index * STATE_BYTES, scratch + total_sums_at + index * sums_bytes)
        for split in range(word(item, _FIRST_SPLIT), word(item, _END_SPLIT)):
            for index in range(rows):
                clear(scratch + states_at + index * STATE_BYTES, scratch + sums_at + index * sums_bytes)
            for key in range(split * SPLIT_KEYS, min((split + 1) * SPLIT_KEYS, end), TILE_KEYS):
                if key + TILE_KEYS > low:
                    find_tiles(row, step, item, scratch, key, low, end)
                    for block in range(blocks):
                        begin, stop = block * rows // blocks, (block + 1) * rows // blocks
                        attend_block(
                            row, scratch, key, queries, scales, begin, stop - begin, group, first_row, context
                        )
            keep_split(row, item, scratch, split)
        if word(item, _PARTIAL) >= 0:
            if atomic_add(word(item, _COUNTER), 1) != word(item, _FAMILY_ITEMS) - 1:
                return
            atomic_store(word(item, _COUNTER), 0)
            merge_family(row, item, scratch)
        write_rows(row, step, item, scratch)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        items = word(row, _ITEMS)
        for index in range(part, word(items, 0), parts):
            attend_item(row, step, items + (index + 1) * ITEM_BYTES, scratch)

    return kernel


_SEQ, _KV_HEAD, _FIRST_ROW, _NUM_ROWS, _FIRST_SPLIT, _END_SPLIT, _PARTIAL, _COUNTER = (
    int(name)
    for name in (
        Item.SEQ,
        Item.KV_HEAD,
        Item.FIRST_ROW,
        Item.NUM_ROWS,
        Item.FIRST_SPLIT,
        Item.END_SPLIT,
        Item.PARTIAL,
        Item.COUNTER,
    )
)
_FAMILY_FIRST, _FAMILY_END, _FAMILY_ITEMS = (
    int(name) for name in (Item.FAMILY_FIRST, Item.FAMILY_END, Item.FAMILY_ITEMS)
)
_TOKENS_WORD, _CU_SEQLENS, _CONTEXT_LENS, _BLOCK_TABLE, _TABLE_WIDTH, _BLOCK_SIZE = (
    int(name)
    for name in (
        Header.TOKENS,
        Header.CU_SEQLENS,
        Header.CONTEXT_LENS,
        Header.BLOCK_TABLE,
        Header.BLOCK_TABLE_WIDTH,
        Header.BLOCK_SIZE,
    )
)
_TOKENS, _KEYS = layout.TILE_TOKENS, layout.KEYS
