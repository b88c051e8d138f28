"""The step kernel that chooses a token for each row of logits: the best, or one drawn by temperature, top-k and top-p.

A row is read in blocks of 512 floats. The first pass notes each block's maximum, so that later ones skip the blocks in which
there is nothing to find. Weights are float32, sums of them over blocks and of candidates float64, each in one fixed order.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.descending import draw_of_best
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Order
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    exact,
    larger,
    largest_of,
    load,
    load_first,
    nan_or,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.nucleus import draw_of_nucleus
from onnxgen.graph.cpu.compiled.philox import uniform
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO = np.float32(0)
_ADDRESS, _BY, _BY_REST, _TOP_K, _TOP_P = (
    int(word) for word in (Order.ADDRESS, Order.BY, Order.BY_REST, Order.TOP_K, Order.TOP_P)
)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)


def draw() -> Callable[[int, int, int, int, int], None]:
    """A token for each row; -1 where the row holds NaN, or its largest float is infinite.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3       orders: [rows, ORDER_WORDS] words, see `onnxgen.graph.cpu.compiled.draw_orders`
        4       tokens: int64 [rows]
        5       maxima: float32 [parts, blocks], to work with, as all that follow
        6       sums: float64 [parts, blocks]
        7, 8    items, spare: int64 [parts, width]
        9       reached: float64 [parts, width]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        blocks = (width + BLOCK - 1) // BLOCK
        maxima, sums = word(row, 5) + 4 * part * blocks, word(row, 6) + 8 * part * blocks
        items, spare = word(row, 7) + 8 * part * width, word(row, 8) + 8 * part * width
        reached = word(row, 9) + 8 * part * width
        tokens = ints64(word(row, 4), rows)
        for r in range(part, rows, parts):
            order = word(row, 3) + 8 * ORDER_WORDS * r
            x = word(order, _ADDRESS)
            by, rest = float_word(order, _BY), float_word(order, _BY_REST)
            top_k, top_p = word(order, _TOP_K), doubles(order + 8 * _TOP_P, 1)[0]
            highest = _note_maxima(x, width, maxima)
            if not (highest > _LOWEST and highest < _HIGHEST):
                tokens[r] = -1
            elif by == _ZERO:
                tokens[r] = _place_of_highest(x, width, maxima, highest)
            else:
                number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION))
                if top_k > 0:
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
                    total = _note_sums(x, width, highest, by, rest, sums)
                    tokens[r] = _draw_in_order(x, width, highest, by, rest, sums, number * total, scratch)

    return kernel


@leaf
def _note_maxima(x: int, width: int, maxima: int) -> float:
    """The largest float, NaN if one is; each block's maximum is noted."""
    blocks = (width + BLOCK - 1) // BLOCK
    highest, nans = _LOWEST, splat(_ZERO)
    for block in range(blocks):
        i, end = block * BLOCK, min(width, (block + 1) * BLOCK)
        a, b = splat(_LOWEST), splat(_LOWEST)
        while i + 2 * LANES <= end:
            p, q = load(x + 4 * i), load(x + 4 * i + 64)
            a, b = larger(p, a), larger(q, b)
            nans = nan_or(p, nan_or(q, nans))
            i += 2 * LANES
        while i < end:
            p = load_first(x + 4 * i, end - i, _LOWEST)
            a, nans = larger(p, a), nan_or(p, nans)
            i += LANES
        here = largest_of(larger(a, b))
        floats(maxima, blocks)[block] = here
        highest = max(highest, here)
    return highest + sum_of(nans)


@exact
def _place_of_highest(x: int, width: int, maxima: int, highest: float) -> int:
    """Where the first of the largest floats is."""
    row, block = floats(x, width), 0
    while floats(maxima, block + 1)[block] != highest:
        block += 1
    place = block * BLOCK
    while row[place] != highest:
        place += 1
    return place


@leaf
def _note_sums(x: int, width: int, highest: float, by: float, rest: float, sums: int) -> float:
    """The sum of all weights; that of each block is noted."""
    blocks = (width + BLOCK - 1) // BLOCK
    total = 0.0
    for block in range(blocks):
        i, end = block * BLOCK, min(width, (block + 1) * BLOCK)
        a, b = splat(_ZERO), splat(_ZERO)
        while i + 2 * LANES <= end:
            a += weights(load(x + 4 * i), highest, by, rest)
            b += weights(load(x + 4 * i + 64), highest, by, rest)
            i += 2 * LANES
        while i < end:
            a += weights(load_first(x + 4 * i, end - i, _LOWEST), highest, by, rest)
            i += LANES
        here = np.float64(sum_of(a + b))
        doubles(sums, blocks)[block] = here
        total += here
    return total


@leaf
def _draw_in_order(
    x: int, width: int, highest: float, by: float, rest: float, sums: int, goal: float, scratch: int
) -> int:
    """The place at which the running sum of weights, by place, passes ``goal``.

    Rounding may leave it short of that: then the last place of any weight.
    """
    blocks = (width + BLOCK - 1) // BLOCK
    held: Any = doubles(sums, blocks)
    chosen, start, reached = 0, 0.0, 0.0
    for block in range(blocks):
        if held[block] > 0:
            chosen, start = block, reached
            reached += held[block]
            if reached > goal:
                break
    first = chosen * BLOCK
    count = min(BLOCK, width - first)
    for i in range(0, count, LANES):
        store(
            scratch + 4 * i, weights(load_first(x + 4 * (first + i), count - i, _LOWEST), highest, by, rest)
        )
    own, place, reached = floats(scratch, count), 0, start
    for i in range(count):
        if own[i] > 0:
            place = i
            reached += own[i]
            if reached > goal:
                break
    return first + place
