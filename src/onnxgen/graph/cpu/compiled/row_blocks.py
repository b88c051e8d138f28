"""Passes over a whole row of logits in blocks: their maxima, their weight, and the token at which a running sum gets to a goal.

The maxima are noted first, so that later passes skip the blocks in which there is nothing to find. Weights are float32, sums
of them over blocks float64, each in one fixed order.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, floats
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
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST = np.float32(-np.inf)
_ZERO = np.float32(0)


@leaf
def note_maxima(x: int, width: int, maxima: int) -> float:
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
def place_of_highest(x: int, width: int, maxima: int, highest: float) -> int:
    """Where the first of the largest floats is."""
    row, block = floats(x, width), 0
    while floats(maxima, block + 1)[block] != highest:
        block += 1
    place = block * BLOCK
    while row[place] != highest:
        place += 1
    return place


@leaf
def note_sums(x: int, width: int, highest: float, by: float, rest: float, sums: int) -> float:
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
def draw_in_order(
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
