"""The step kernels that choose a token for each row of logits, the best or one drawn, and that say what is drawn among."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import item_of
from onnxgen.graph.cpu.compiled.descending import best_candidates, draw_of_best
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Narrowing, Order
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import (
    KEPT_WORDS,
    Kept,
    drawn_place,
    id_at,
    take_items,
    take_row,
    weigh,
)
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import exact
from onnxgen.graph.cpu.compiled.mirostat import keep_unsurprising
from onnxgen.graph.cpu.compiled.narrowing_filters import filter_row
from onnxgen.graph.cpu.compiled.nucleus import draw_of_nucleus, end_of_nucleus
from onnxgen.graph.cpu.compiled.philox import uniform
from onnxgen.graph.cpu.compiled.row_blocks import draw_in_order, note_maxima, note_sums, place_of_highest
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO = np.float32(0)
_ADDRESS, _BY, _BY_REST, _TOP_K, _TOP_P = (
    int(word) for word in (Order.ADDRESS, Order.BY, Order.BY_REST, Order.TOP_K, Order.TOP_P)
)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)
_NARROWING = int(Order.NARROWING)
_PLAIN, _FILTERS = int(Narrowing.PLAIN), int(Narrowing.FILTERS)
_VALUES, _WEIGHTS, _OWN_VALUES, _OWN_IDS = (
    int(word) for word in (Kept.VALUES, Kept.WEIGHTS, Kept.OWN_VALUES, Kept.OWN_IDS)
)
_KEYS, _KEY_MAXIMA, _ITEMS, _SPARE, _SUMS, _COUNT = (
    int(word) for word in (Kept.KEYS, Kept.MAXIMA, Kept.ITEMS, Kept.SPARE, Kept.SUMS, Kept.COUNT)
)
_DRAW = 0
"""The purpose of the random number that says which token is drawn."""
_RECORD = 32768
"""Bytes from the start of scratch memory to what is known of the row at hand; all else that works there is before it."""


def draw() -> Callable[[int, int, int, int, int], None]:
    """A token for each row; -1 where the row holds NaN, or its largest float is infinite.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3       orders: [rows, ORDER_WORDS] words, see `onnxgen.graph.cpu.compiled.draw_orders`
        4       tokens: int64 [rows]
        5       shares: float64 [rows]: of rows that Mirostat narrows, the drawn token's weight among all
        6       maxima: float32 [parts, blocks], to work with, as all that follow
        7       sums: float64 [parts, blocks]
        8, 9    items, spare: int64 [parts, width]
        10      reached: float64 [parts, width]
        11      key maxima: float32 [parts, blocks]
        12      values, weights, keys: float32 [parts, 3, room]
        13      ids: int32 [parts, room]; room is the width, up to a multiple of 16
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        blocks = (width + BLOCK - 1) // BLOCK
        maxima, sums = word(row, 6) + 4 * part * blocks, word(row, 7) + 8 * part * blocks
        items, spare = word(row, 8) + 8 * part * width, word(row, 9) + 8 * part * width
        reached, kept = word(row, 10) + 8 * part * width, scratch + _RECORD
        _open(kept, row, part)
        tokens = ints64(word(row, 4), rows)
        for r in range(part, rows, parts):
            order = word(row, 3) + 8 * ORDER_WORDS * r
            x = word(order, _ADDRESS)
            by, rest = float_word(order, _BY), float_word(order, _BY_REST)
            top_k, top_p = word(order, _TOP_K), doubles(order + 8 * _TOP_P, 1)[0]
            highest = note_maxima(x, width, maxima)
            if not (highest > _LOWEST and highest < _HIGHEST):
                tokens[r] = -1
            elif by == _ZERO:
                tokens[r] = place_of_highest(x, width, maxima, highest)
            else:
                number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION), _DRAW)
                if word(order, _NARROWING) != _PLAIN:
                    total = _narrow(order, x, width, maxima, highest, kept, scratch)
                    place = drawn_place(kept, number)
                    tokens[r] = id_at(kept, place)
                    if total > 0:
                        weight = floats(word(kept, _WEIGHTS), place + 1)[place]
                        doubles(word(row, 5), rows)[r] = np.float64(weight) / total
                elif top_k > 0:
                    tokens[r] = draw_of_best(
                        x,
                        width,
                        maxima,
                        highest,
                        by,
                        rest,
                        top_k,
                        top_p,
                        number,
                        items,
                        spare,
                        reached,
                        scratch,
                    )
                elif top_p < 1:
                    tokens[r] = draw_of_nucleus(
                        x, width, maxima, highest, by, rest, top_p, number, items, spare, reached, scratch
                    )
                else:
                    total = note_sums(x, width, highest, by, rest, sums)
                    tokens[r] = draw_in_order(x, width, highest, by, rest, sums, number * total, scratch)

    return kernel


def distribution() -> Callable[[int, int, int, int, int], None]:
    """What `draw` draws one row's token among: ids, and the weights of each; nothing where its token is -1.

    Words: as for `draw`, for one row and part, but

        4       count: int64 [1]
        5       weights: float32 [width]
        14      ids: int64 [width]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, order = word(row, 2), word(row, 3)
        x, maxima, kept = word(order, _ADDRESS), word(row, 6), scratch + _RECORD
        _open(kept, row, 0)
        found = ints64(word(row, 4), 1)
        weights, ids = floats(word(row, 5), width), ints64(word(row, 14), width)
        found[0] = 0
        highest = note_maxima(x, width, maxima)
        if not (highest > _LOWEST and highest < _HIGHEST):
            return
        if float_word(order, _BY) == _ZERO:
            found[0], weights[0], ids[0] = 1, np.float32(1), place_of_highest(x, width, maxima, highest)
            return
        if word(order, _NARROWING) == _PLAIN:
            _narrow_plainly(order, x, width, maxima, highest, kept, word(row, 10), scratch)
        else:
            _narrow(order, x, width, maxima, highest, kept, scratch)
        own = floats(word(kept, _WEIGHTS), word(kept, _COUNT))
        for place in range(word(kept, _COUNT)):
            if own[place] > 0:
                weights[found[0]], ids[found[0]] = own[place], id_at(kept, place)
                found[0] += 1

    return kernel


@exact
def _open(kept: int, row: int, part: int) -> None:
    """Tell the record where a part's memory is."""
    width = word(row, 2)
    blocks, room = (width + BLOCK - 1) // BLOCK, (width + LANES - 1) // LANES * LANES
    record = ints64(kept, KEPT_WORDS)
    record[_SUMS], record[_KEY_MAXIMA] = word(row, 7) + 8 * part * blocks, word(row, 11) + 4 * part * blocks
    record[_ITEMS], record[_SPARE] = word(row, 8) + 8 * part * width, word(row, 9) + 8 * part * width
    record[_OWN_VALUES] = word(row, 12) + 12 * part * room
    record[_WEIGHTS], record[_KEYS] = record[_OWN_VALUES] + 4 * room, record[_OWN_VALUES] + 8 * room
    record[_OWN_IDS] = word(row, 13) + 4 * part * room


@leaf
def _narrow(order: int, x: int, width: int, maxima: int, highest: float, kept: int, scratch: int) -> float:
    """Leave in the record what may be drawn; returns the weight of the whole row under Mirostat, else 0."""
    if word(order, _NARROWING) == _FILTERS:
        filter_row(order, x, width, maxima, highest, kept, scratch)
        return 0.0
    return keep_unsurprising(order, x, width, maxima, highest, kept, scratch)


@leaf
def _narrow_plainly(
    order: int, x: int, width: int, maxima: int, highest: float, kept: int, reached: int, scratch: int
) -> None:
    """Leave in the record what may be drawn with temperature, top-k and top-p alone."""
    by, rest = float_word(order, _BY), float_word(order, _BY_REST)
    top_k, top_p = word(order, _TOP_K), doubles(order + 8 * _TOP_P, 1)[0]
    items, spare = word(kept, _ITEMS), word(kept, _SPARE)
    if top_k > 0:
        count = best_candidates(
            x, width, maxima, highest, by, rest, top_k, top_p, items, spare, reached, scratch
        )
        take_items(kept, x, width, count)
    else:
        take_row(kept, x, width)
    weigh(kept, _LOWEST, highest, by, rest)
    if top_k == 0 and top_p < 1:
        last, _ = end_of_nucleus(x, width, maxima, highest, by, rest, top_p, items, spare, reached, scratch)
        own = floats(word(kept, _WEIGHTS), width)
        for place in range(width):
            if item_of(x, place) > last:
                own[place] = _ZERO
