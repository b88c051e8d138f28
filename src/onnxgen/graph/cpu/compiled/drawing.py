"""The step kernel that chooses a token for each row of logits: the best, or one drawn by temperature, top-k and top-p."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.descending import draw_of_best
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Order
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, ints64, word
from onnxgen.graph.cpu.compiled.masked_rows import write_masked
from onnxgen.graph.cpu.compiled.nucleus import draw_of_nucleus
from onnxgen.graph.cpu.compiled.philox import DRAW, uniform
from onnxgen.graph.cpu.compiled.row_blocks import draw_in_order, note_maxima, note_sums, place_of_highest
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO = np.float32(0)
_ADDRESS, _BY, _BY_REST, _TOP_K, _TOP_P, _MASK = (
    int(word) for word in (Order.ADDRESS, Order.BY, Order.BY_REST, Order.TOP_K, Order.TOP_P, Order.MASK)
)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)


def draw() -> Callable[[int, int, int, int, int], None]:
    """A token for each row; -1 where the row holds NaN, or its largest float is infinite. What a mask hides does not count.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3       orders: [rows, ORDER_WORDS] words, see `onnxgen.graph.cpu.compiled.draw_orders`
        4       tokens: int64 [rows]
        5       ends: int64 [rows]: with top-k or top-p, the item of the last token that could have been drawn
        6       maxima: float32 [parts, blocks], to work with, as all that follow
        7       sums: float64 [parts, blocks]
        8, 9    items, spare: int64 [parts, width]
        10      reached: float64 [parts, width]
        11      weighed: float32 [parts, room]; room is the width, up to a multiple of 16
        12      masked: likewise, if a row has a mask
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        blocks = (width + BLOCK - 1) // BLOCK
        maxima, sums = word(row, 6) + 4 * part * blocks, word(row, 7) + 8 * part * blocks
        items, spare = word(row, 8) + 8 * part * width, word(row, 9) + 8 * part * width
        reached = word(row, 10) + 8 * part * width
        own_room = 4 * part * ((width + LANES - 1) // LANES * LANES)
        weighed, masked = word(row, 11) + own_room, word(row, 12) + own_room
        tokens, ends = ints64(word(row, 4), rows), ints64(word(row, 5), rows)
        for r in range(part, rows, parts):
            order = word(row, 3) + 8 * ORDER_WORDS * r
            x = word(order, _ADDRESS)
            by, rest = float_word(order, _BY), float_word(order, _BY_REST)
            top_k, top_p = word(order, _TOP_K), doubles(order + 8 * _TOP_P, 1)[0]
            if word(order, _MASK):
                x = write_masked(x, width, word(order, _MASK), masked)
            highest = note_maxima(x, width, maxima)
            if not (highest > _LOWEST and highest < _HIGHEST):
                tokens[r] = -1
            elif by == _ZERO:
                tokens[r] = place_of_highest(x, width, maxima, highest)
            else:
                number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION), DRAW)
                if top_k > 0:
                    tokens[r], ends[r] = draw_of_best(
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
                    tokens[r], ends[r] = draw_of_nucleus(
                        x,
                        width,
                        maxima,
                        highest,
                        by,
                        rest,
                        top_p,
                        number,
                        items,
                        spare,
                        reached,
                        weighed,
                        scratch,
                    )
                else:
                    total = note_sums(x, width, highest, by, rest, sums)
                    tokens[r] = draw_in_order(x, width, highest, by, rest, sums, number * total, scratch)

    return kernel
