"""The step kernel that draws tokens from what filters or Mirostat leave of rows of logits."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Narrowing, Order
from onnxgen.graph.cpu.compiled.kept_tokens import KEPT_WORDS, Kept, drawn_place, id_at
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import exact
from onnxgen.graph.cpu.compiled.masked_rows import write_masked
from onnxgen.graph.cpu.compiled.mirostat import keep_unsurprising, zipf_exponent
from onnxgen.graph.cpu.compiled.narrowing_filters import filter_row
from onnxgen.graph.cpu.compiled.philox import DRAW, uniform
from onnxgen.graph.cpu.compiled.row_blocks import note_maxima
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ADDRESS, _NARROWING, _MASK = int(Order.ADDRESS), int(Order.NARROWING), int(Order.MASK)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)
_FILTERS, _ZIPF = int(Narrowing.FILTERS), int(Narrowing.ZIPF)
_COUNT, _WEIGHTS, _OWN_VALUES, _OWN_IDS = (
    int(index) for index in (Kept.COUNT, Kept.WEIGHTS, Kept.OWN_VALUES, Kept.OWN_IDS)
)
_MAXIMA, _ITEMS, _SPARE, _SUMS = (int(index) for index in (Kept.MAXIMA, Kept.ITEMS, Kept.SPARE, Kept.SUMS))
_RECORD = 32768
"""Bytes from the start of scratch memory to what is known of the row at hand; all else that works there is before it."""


def draw_narrowed() -> Callable[[int, int, int, int, int], None]:
    """A token for each row, or what it would be drawn among; -1 and nothing where the row holds NaN, or its maximum is infinite.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3       orders: [rows, ORDER_WORDS] words, see `onnxgen.graph.cpu.compiled.draw_orders`; none takes the best
        4       tokens: int64 [rows]; with 12 how many may be drawn
        5       figures: float64 [rows]: of rows that Mirostat narrows the token's share of the row's weight, of others that
                Zipf's exponent is asked of that, which is NaN where there is none
        6       maxima: float32 [parts, blocks], to work with, as all that follow
        7       sums: float64 [parts, blocks]
        8, 9    items, spare: int64 [parts, width]
        10      maxima of what is left: float32 [parts, blocks]
        11      values, weights, ids: of 4 bytes, [parts, 3, room]; room is the width, up to a multiple of 16
        12, 13  ids: int64 [rows, width]; weights: float32 [rows, width]: what may be drawn; address 0: a token is drawn
        14      masked: float32 [parts, room], if a row has a mask
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        blocks = (width + BLOCK - 1) // BLOCK
        maxima, kept = word(row, 6) + 4 * part * blocks, scratch + _RECORD
        masked = word(row, 14) + 4 * part * ((width + LANES - 1) // LANES * LANES)
        _open(kept, row, part)
        tokens, figures = ints64(word(row, 4), rows), doubles(word(row, 5), rows)
        for r in range(part, rows, parts):
            order = word(row, 3) + 8 * ORDER_WORDS * r
            x, narrowing = word(order, _ADDRESS), word(order, _NARROWING)
            if word(order, _MASK):
                x = write_masked(x, width, word(order, _MASK), masked)
            highest = note_maxima(x, width, maxima)
            figures[r] = np.nan
            if not (highest > _LOWEST and highest < _HIGHEST):
                tokens[r] = 0 if word(row, 12) else -1
                continue
            if narrowing == _ZIPF:
                figures[r] = zipf_exponent(order, x, width, maxima, highest, kept, scratch)
                continue
            total = np.nan
            if narrowing == _FILTERS:
                filter_row(order, x, width, maxima, highest, kept, scratch)
            else:
                total = keep_unsurprising(order, x, width, maxima, highest, kept, scratch)
            if word(row, 12):
                tokens[r] = _tell(kept, word(row, 12) + 8 * width * r, word(row, 13) + 4 * width * r)
                continue
            number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION), DRAW)
            place = drawn_place(kept, number)
            tokens[r] = id_at(kept, place)
            figures[r] = np.float64(floats(word(kept, _WEIGHTS), place + 1)[place]) / total

    return kernel


@exact
def _open(kept: int, row: int, part: int) -> None:
    """Tell the record where a part's memory is."""
    width = word(row, 2)
    blocks, room = (width + BLOCK - 1) // BLOCK, (width + LANES - 1) // LANES * LANES
    record, own = ints64(kept, KEPT_WORDS), word(row, 11) + 12 * part * room
    record[_SUMS], record[_MAXIMA] = word(row, 7) + 8 * part * blocks, word(row, 10) + 4 * part * blocks
    record[_ITEMS], record[_SPARE] = word(row, 8) + 8 * part * width, word(row, 9) + 8 * part * width
    record[_OWN_VALUES], record[_WEIGHTS] = own, own + 4 * room
    record[_OWN_IDS] = own + 8 * room


@exact
def _tell(kept: int, ids: int, weights: int) -> int:
    """Write what may be drawn; returns how many there are."""
    count, found = word(kept, _COUNT), 0
    own = floats(word(kept, _WEIGHTS), count)
    for place in range(count):
        if own[place] > 0:
            ints64(ids, count)[found], floats(weights, count)[found] = id_at(kept, place), own[place]
            found += 1
    return found
