"""Cutting the attention of a step into work items, once for all layers that see the same window."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.compiled.kernel import ints32, ints64, word
from onnxgen.graph.cpu.compiled.paged.arguments import PLAN, words
from onnxgen.graph.cpu.compiled.paged.items import ITEM_BYTES, ITEM_WORDS, MOST_ROWS, Item
from onnxgen.graph.cpu.compiled.paged.numbers import SPLIT_KEYS

_ITEMS, _MOST_ITEMS, _MOST_PARTIALS, _KV_HEADS, _GROUP, _WINDOW, _WORKERS = words(PLAN, *PLAN)

_ITEMS_PER_WORKER = 4
"""Pieces that a worker's share is cut into, so that those who begin later or run slower do less."""


def plan() -> Callable[..., None]:
    """The kernel; its arguments are `arguments.PLAN`. It has one part.

    Sequences with many new tokens are cut by rows. Where that leaves too few items for the workers, as when one sequence is
    decoded, items are cut by splits of keys too. Results do not depend on any of this.
    """

    @inline
    def first_split(row: int, context: int, token: int) -> int:
        """Of the splits that a new token sees."""
        return max(context + token + 1 - word(row, _WINDOW), 0) // SPLIT_KEYS

    @inline
    def tokens_of_item(group: int) -> int:
        return max(MOST_ROWS // group, 1)

    @inline
    def total_cost(row: int, step: int) -> int:
        """Rows times splits of the whole step, for one head."""
        lengths = ints32(word(step, _CU_SEQLENS), word(step, _SEQS) + 1)
        contexts = ints32(word(step, _CONTEXT_LENS), word(step, _SEQS))
        total = 0
        for seq in range(word(step, _SEQS)):
            tokens = lengths[seq + 1] - lengths[seq]
            for first in range(0, tokens, tokens_of_item(word(row, _GROUP))):
                last = min(first + tokens_of_item(word(row, _GROUP)), tokens) - 1
                splits = (contexts[seq] + last) // SPLIT_KEYS + 1 - first_split(row, contexts[seq], first)
                total += splits * (last + 1 - first)
        return total

    @inline
    def sort_by_cost(items: int, count: int) -> None:
        """The costliest first, so that small ones fill the gaps at the end."""
        words = ints64(items + ITEM_BYTES, count * ITEM_WORDS)
        gap = 1
        while gap < count:
            gap = 3 * gap + 1
        while gap > 1:
            gap //= 3
            for index in range(gap, count):
                place = index
                while (
                    place >= gap
                    and words[place * ITEM_WORDS + _COST] > words[(place - gap) * ITEM_WORDS + _COST]
                ):
                    for w in range(ITEM_WORDS):
                        mine, other = (place * ITEM_WORDS + w, (place - gap) * ITEM_WORDS + w)
                        words[mine], words[other] = words[other], words[mine]
                    place -= gap

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        items, most = word(row, _ITEMS), word(row, _MOST_ITEMS)
        kv_heads, group = word(row, _KV_HEADS), word(row, _GROUP)
        seqs = word(step, _SEQS)
        lengths, contexts = (
            ints32(word(step, _CU_SEQLENS), seqs + 1),
            ints32(word(step, _CONTEXT_LENS), seqs),
        )
        share = total_cost(row, step) * kv_heads // (word(row, _WORKERS) * _ITEMS_PER_WORKER) + 1
        counters = items + (most + 1) * ITEM_BYTES
        count = partials = 0
        needed = 0
        for seq in range(seqs):
            tokens = lengths[seq + 1] - lengths[seq]
            needed += kv_heads * ((tokens + tokens_of_item(group) - 1) // tokens_of_item(group))
        spare = most - needed
        for seq in range(seqs):
            tokens = lengths[seq + 1] - lengths[seq]
            for first in range(0, tokens, tokens_of_item(group)):
                number = min(tokens_of_item(group), tokens - first)
                begin = first_split(row, contexts[seq], first)
                end = (contexts[seq] + first + number - 1) // SPLIT_KEYS + 1
                splits = max(min(share // number, end - begin), 1)
                pieces = (end - begin + splits - 1) // splits
                rows = number * group
                kept = pieces > 1
                if kept and (
                    spare < kv_heads * (pieces - 1)
                    or partials + kv_heads * (end - begin) * rows > word(row, _MOST_PARTIALS)
                ):
                    pieces, splits, kept = 1, end - begin, False
                spare -= kv_heads * (pieces - 1)
                for head in range(kv_heads):
                    ints64(counters + 8 * count, 1)[0] = 0
                    counter = counters + 8 * count
                    for piece in range(pieces):
                        item = ints64(items + (count + 1) * ITEM_BYTES, ITEM_WORDS)
                        item[_SEQ], item[_KV_HEAD] = seq, head
                        item[_FIRST_ROW], item[_NUM_ROWS] = first * group, rows
                        item[_FIRST_SPLIT] = begin + piece * splits
                        item[_END_SPLIT] = min(begin + (piece + 1) * splits, end)
                        item[_PARTIAL] = partials if kept else -1
                        item[_COUNTER] = counter
                        item[_FAMILY_FIRST], item[_FAMILY_END], item[_FAMILY_ITEMS] = (begin, end, pieces)
                        # A piece may end within its last split: splits are cost enough to go by.
                        item[_COST] = (item[_END_SPLIT] - item[_FIRST_SPLIT]) * rows
                        count += 1
                    if kept:
                        partials += (end - begin) * rows
        ints64(items, 1)[0] = count
        ints64(step, Header.NUM_ITEMS + 1)[_NUM_ITEMS] = count
        sort_by_cost(items, count)

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
_FAMILY_FIRST, _FAMILY_END, _FAMILY_ITEMS, _COST = (
    int(name) for name in (Item.FAMILY_FIRST, Item.FAMILY_END, Item.FAMILY_ITEMS, Item.COST)
)
_SEQS, _CU_SEQLENS, _CONTEXT_LENS, _NUM_ITEMS = (
    int(name) for name in (Header.SEQS, Header.CU_SEQLENS, Header.CONTEXT_LENS, Header.NUM_ITEMS)
)
