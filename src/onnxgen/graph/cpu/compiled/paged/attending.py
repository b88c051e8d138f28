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

import numpy as np

from onnxgen.graph.cpu.compiled.atomics import atomic_add, atomic_store
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.compiled.kernel import float_word, floats, ints32, ints64, word
from onnxgen.graph.cpu.compiled.paged.arguments import ATTEND, words
from onnxgen.graph.cpu.compiled.paged.blocking import blocking
from onnxgen.graph.cpu.compiled.paged.items import ITEM_BYTES, Item
from onnxgen.graph.cpu.compiled.paged.layout import GROUP_TOKENS, MOST_TILE_TOKENS, SCALES, token_bytes
from onnxgen.graph.cpu.compiled.paged.merging import clear_of, finish_of, merge_of, record_bytes, total
from onnxgen.graph.cpu.compiled.paged.numbers import LOWEST, SPLIT_KEYS, TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.scores import SCORE_BYTES, gather_scales, scores_of
from onnxgen.graph.cpu.compiled.paged.scratch import GROUPS, GROUPS_BYTES, places
from onnxgen.graph.cpu.compiled.paged.values import WEIGHT_BYTES, values_of
from onnxgen.graph.cpu.compiled.paged.weights import maxima_of, weigh_of
from onnxgen.graph.cpu.compiled.vectors import LANES, VECTOR_BYTES
from onnxgen.graph.cpu.isa import Isa

(_QUERIES, _SCALES, _PAGES, _BLOCK_BYTES, _OUT, _STRIDE, _TABLE) = words(
    ATTEND, "queries", "query_scales", "pages", "block_bytes", "out", "out_stride", "table_word"
)
(_GROUP, _WINDOW, _CAP, _SINKS, _ITEMS, _PARTIALS) = words(
    ATTEND, "group", "window", "softcap", "sinks", "items", "partials"
)

_LOG2_E, _LOWEST = np.float32(math.log2(math.e)), np.float32(LOWEST)


def attend(*, isa: str, head_dim: int, value_dim: int, bits: int, softcap: bool) -> Callable[..., None]:
    """The kernel; its arguments are `arguments.ATTEND`.

    Args:
        isa: A value of `Isa`.
        head_dim: Dimensions of queries and keys.
        value_dim: Dimensions of values.
        bits: Of each number of keys and values, 16 or 8.
        softcap: Whether scores are bound.
    """
    target = Isa(isa)
    shape = blocking(target)
    scores = scores_of(target, shape, head_dim, bits=bits)
    add_values = values_of(target, shape, value_dim, bits=bits)
    maxima = maxima_of(target, shape, softcap=softcap, masked=False)
    maxima_seen = maxima_of(target, shape, softcap=softcap, masked=True)
    weigh, weigh_seen = weigh_of(target, masked=False), weigh_of(target, masked=True)
    clear, merge, finish = (clear_of(value_dim), merge_of(target, value_dim), finish_of(target, value_dim))

    block_rows = shape.rows
    number_bytes, bytes_of_token = bits // 8, token_bytes(head_dim, value_dim, bits)
    query_bytes, sums_bytes, row_record = (2 * head_dim, 4 * value_dim, record_bytes(value_dim))
    p = places(block_rows, value_dim)
    groups_at, scales_at = p.groups, p.scales
    scores_at, weights_at, fades_at = p.scores, p.weights, p.fades
    ends_at, maxima_at, denominators_at, sums_at, records_at = (
        p.ends,
        p.maxima,
        p.denominators,
        p.sums,
        p.records,
    )

    @inline
    def find_groups(
        row: int, step: int, item: int, scratch: int, key: int, low: int, end: int, tile: int
    ) -> None:
        """Addresses and scales of the 64 tokens from ``key`` on.

        Groups that no row sees, those wholly outside of ``low`` to ``end``, may have no block: any other stands for them.
        """
        table, block_size = word(row, _TABLE), word(step, _BLOCK_SIZE)
        width = word(step, table + 1)
        blocks = ints32(word(step, table) + 4 * width * word(item, _SEQ), width)
        head = word(row, _PAGES) + word(item, _KV_HEAD) * block_size * bytes_of_token
        groups = ints64(scratch + groups_at, 3 * GROUPS)
        first, last = (low // GROUP_TOKENS * GROUP_TOKENS, (end - 1) // GROUP_TOKENS * GROUP_TOKENS)
        for group in range(GROUPS):
            token = min(max(key + group * GROUP_TOKENS, first), last)
            within = token % block_size
            column = within % tile
            scales = (
                head
                + blocks[token // block_size] * word(row, _BLOCK_BYTES)
                + (within - column) * bytes_of_token
            )
            keys = scales + 4 * SCALES * tile
            groups[group] = keys + 2 * number_bytes * column
            groups[GROUPS + group] = keys + number_bytes * (head_dim * tile + value_dim * column)
            groups[2 * GROUPS + group] = scales + 4 * column
        gather_scales(scratch + groups_at + 2 * GROUPS_BYTES, 4 * tile, scratch + scales_at)

    @inline
    def attend_block(
        row: int,
        scratch: int,
        key: int,
        tile: int,
        queries: int,
        scales: int,
        begin: int,
        count: int,
        first_row: int,
        context: int,
    ) -> None:
        """Rows ``begin`` to ``begin + count`` of the item and 64 keys from ``key`` on."""
        window, group = word(row, _WINDOW), word(row, _GROUP)
        earliest = context + (first_row + begin) // group
        latest = context + (first_row + begin + count - 1) // group
        if key > latest or key + TILE_KEYS + window <= earliest + 1:
            return
        all_seen = key + TILE_KEYS <= earliest + 1 and key + window > latest
        line_bytes = 2 * number_bytes * tile
        scores(count, queries + begin * query_bytes, scratch + groups_at, line_bytes, scratch + scores_at)
        ends = ints64(scratch + ends_at, count)
        if not all_seen:
            for index in range(count):
                ends[index] = context + (first_row + begin + index) // group + 1 - key
        rows_of_block = (
            count,
            scratch + scores_at,
            scales + 4 * begin,
            float_word(row, _CAP) * _LOG2_E,
            scratch + scales_at,
            scratch + maxima_at + 4 * begin,
            scratch + fades_at,
            scratch + ends_at,
            window,
        )
        if all_seen:
            maxima(*rows_of_block)
        else:
            maxima_seen(*rows_of_block)
        highest, fades = (floats(scratch + maxima_at + 4 * begin, count), floats(scratch + fades_at, count))
        for index in range(count):
            mine, out = (
                scratch + scores_at + index * SCORE_BYTES,
                scratch + weights_at + index * WEIGHT_BYTES,
            )
            denominator = scratch + denominators_at + (begin + index) * VECTOR_BYTES
            if all_seen:
                weigh(mine, highest[index], fades[index], scratch + scales_at, denominator, out, 0, 0)
            else:
                weigh_seen(
                    mine,
                    highest[index],
                    fades[index],
                    scratch + scales_at,
                    denominator,
                    out,
                    ends[index],
                    window,
                )
        add_values(
            count,
            scratch + weights_at,
            scratch + fades_at,
            scratch + groups_at + GROUPS_BYTES,
            scratch + sums_at + begin * sums_bytes,
        )

    @inline
    def begin_split(rows: int, scratch: int) -> None:
        highest, denominators = (
            floats(scratch + maxima_at, rows),
            floats(scratch + denominators_at, rows * LANES),
        )
        for index in range(rows):
            highest[index] = _LOWEST
            clear(scratch + sums_at + index * sums_bytes)
        for index in range(rows * LANES):
            denominators[index] = np.float32(0)

    @inline
    def begin_records(rows: int, records: int) -> None:
        for index in range(rows):
            record = records + index * row_record
            clear(record)
            state = floats(record + sums_bytes, 2)
            state[0], state[1] = _LOWEST, np.float32(0)

    @inline
    def add_split(rows: int, scratch: int, records: int) -> None:
        """The split's results to records."""
        highest = floats(scratch + maxima_at, rows)
        for index in range(rows):
            denominator = total(scratch + denominators_at + index * VECTOR_BYTES)
            merge(
                records + index * row_record,
                highest[index],
                denominator,
                scratch + sums_at + index * sums_bytes,
            )

    @inline
    def merge_family(rows: int, splits: int, scratch: int, partials: int) -> None:
        """The records of all splits, in their order, to those of the item."""
        begin_records(rows, scratch + records_at)
        for split in range(splits):
            for index in range(rows):
                record = partials + (split * rows + index) * row_record
                state = floats(record + sums_bytes, 2)
                merge(scratch + records_at + index * row_record, state[0], state[1], record)

    @inline
    def write_rows(row: int, step: int, item: int, scratch: int) -> None:
        """The quotients of the item's records to where they belong."""
        group, first_row, sinks = (word(row, _GROUP), word(item, _FIRST_ROW), word(row, _SINKS))
        first_token = ints32(word(step, _CU_SEQLENS), word(item, _SEQ) + 1)[word(item, _SEQ)]
        for index in range(word(item, _NUM_ROWS)):
            token = first_token + (first_row + index) // group
            head = word(item, _KV_HEAD) * group + (first_row + index) % group
            extra = floats(sinks, head + 1)[head] * _LOG2_E if sinks != 0 else _LOWEST
            out = word(row, _OUT) + token * word(row, _STRIDE) + head * sums_bytes
            finish(scratch + records_at + index * row_record, extra, out)

    @inline
    def attend_item(row: int, step: int, item: int, scratch: int) -> None:
        seq, rows, first_row, group = (
            word(item, _SEQ),
            word(item, _NUM_ROWS),
            word(item, _FIRST_ROW),
            word(row, _GROUP),
        )
        first_token = ints32(word(step, _CU_SEQLENS), seq + 1)[seq]
        before = (word(item, _KV_HEAD) * word(step, _STEP_TOKENS) + first_token) * group + first_row
        queries, scales = (word(row, _QUERIES) + before * query_bytes, word(row, _SCALES) + 4 * before)
        context = ints32(word(step, _CONTEXT_LENS), seq + 1)[seq]
        low = max(context + first_row // group + 1 - word(row, _WINDOW), 0)
        end = context + (first_row + rows - 1) // group + 1
        blocks = (rows + block_rows - 1) // block_rows
        is_family = word(item, _PARTIAL) < 0
        partials = word(row, _PARTIALS) + word(item, _PARTIAL) * row_record
        records = scratch + records_at
        if is_family:
            begin_records(rows, records)
        end_key = min(word(item, _END_SPLIT) * SPLIT_KEYS, end)
        first_key = max(word(item, _FIRST_SPLIT) * SPLIT_KEYS, low // TILE_KEYS * TILE_KEYS)
        block_size = word(step, _BLOCK_SIZE)
        # The largest power of two in it.
        tile = min(block_size & -block_size, MOST_TILE_TOKENS)
        for split in range(word(item, _FIRST_SPLIT), word(item, _END_SPLIT)):
            begin_split(rows, scratch)
            for key in range(
                max(split * SPLIT_KEYS, first_key), min((split + 1) * SPLIT_KEYS, end_key), TILE_KEYS
            ):
                find_groups(row, step, item, scratch, key, low, end, tile)
                for block in range(blocks):
                    begin, stop = block * rows // blocks, (block + 1) * rows // blocks
                    attend_block(
                        row, scratch, key, tile, queries, scales, begin, stop - begin, first_row, context
                    )
            if not is_family:
                records = partials + (split - word(item, _FAMILY_FIRST)) * rows * row_record
                begin_records(rows, records)
            add_split(rows, scratch, records)
        if not is_family:
            if atomic_add(word(item, _COUNTER), 1) != word(item, _FAMILY_ITEMS) - 1:
                return
            atomic_store(word(item, _COUNTER), 0)
            merge_family(rows, word(item, _FAMILY_END) - word(item, _FAMILY_FIRST), scratch, partials)
        write_rows(row, step, item, scratch)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        items = word(row, _ITEMS)
        for index in range(part, word(items, 0), parts):
            attend_item(row, step, items + (index + 1) * ITEM_BYTES, scratch)

    return kernel


_SEQ, _KV_HEAD, _FIRST_ROW, _NUM_ROWS, _FIRST_SPLIT, _END_SPLIT = (
    int(name)
    for name in (
        *(Item.SEQ, Item.KV_HEAD, Item.FIRST_ROW, Item.NUM_ROWS),
        *(Item.FIRST_SPLIT, Item.END_SPLIT),
    )
)
_PARTIAL, _COUNTER, _FAMILY_FIRST, _FAMILY_END, _FAMILY_ITEMS = (
    int(name) for name in (Item.PARTIAL, Item.COUNTER, Item.FAMILY_FIRST, Item.FAMILY_END, Item.FAMILY_ITEMS)
)
_STEP_TOKENS, _CU_SEQLENS, _CONTEXT_LENS, _BLOCK_SIZE = (
    int(name) for name in (Header.TOKENS, Header.CU_SEQLENS, Header.CONTEXT_LENS, Header.BLOCK_SIZE)
)
