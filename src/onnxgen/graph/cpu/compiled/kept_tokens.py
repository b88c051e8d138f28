"""The tokens of a row that may still be drawn, as filters cut them down.

A record of words says where they are::

    VALUES   float32 [count]   logits: of the row itself, or copies of some of them
    WEIGHTS  float32 [count]   0: may not be drawn; zeros follow up to a multiple of 16
    IDS      int32 [count]     token ids; address 0: a token's place is its id
    SUMS     float64 [blocks]  of the weights

Removing a token sets its weight to 0. Where few are left of many, those that are left move together.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints32, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    at_least,
    exact,
    if_from,
    larger,
    largest_of,
    load,
    log,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_keys import lanes_within, lowest_bit
from onnxgen.graph.cpu.compiled.lane_sums import load_most, plus_from
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES


class Kept(IntEnum):
    """Indices of the record's words.

    Attributes:
        COUNT: How many tokens there are, removed ones too.
        VALUES: See above.
        WEIGHTS: See above.
        IDS: See above.
        OWN_VALUES: Memory for copies of logits, as long as the row.
        OWN_IDS: Memory for their ids.
        SUMS: See above.
        MAXIMA: float32, of blocks, to work with, as all that follow.
        ITEMS: int64.
        SPARE: int64.
    """

    COUNT = 0
    VALUES = 1
    WEIGHTS = 2
    IDS = 3
    OWN_VALUES = 4
    OWN_IDS = 5
    SUMS = 6
    MAXIMA = 7
    ITEMS = 8
    SPARE = 9


KEPT_WORDS = len(Kept)

_COUNT, _VALUES, _WEIGHTS, _IDS = int(Kept.COUNT), int(Kept.VALUES), int(Kept.WEIGHTS), int(Kept.IDS)
_OWN_VALUES, _OWN_IDS, _ITEMS, _SUMS = (
    int(Kept.OWN_VALUES),
    int(Kept.OWN_IDS),
    int(Kept.ITEMS),
    int(Kept.SUMS),
)

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)
SMALLEST_WEIGHT = np.float32(2.0**-126)
"""No weight but 0 is less."""
_FAR, _SLACK = np.float32(-1e20), np.float32(0.01)
_FEW = 16
"""Of a row those tokens are picked out that are less than one in so many."""
_MANY, _FEWER = 2048, 32
"""Of so many tokens, those that are left move together when they are less than one in so many: picking them out costs more
than looking at all once more where there are many of them."""


@exact
def take_row(kept: int, x: int, width: int) -> None:
    """All tokens of a row may be drawn."""
    record = ints64(kept, KEPT_WORDS)
    record[_COUNT], record[_VALUES], record[_IDS] = width, x, 0


@leaf
def take_items(kept: int, x: int, width: int, count: int) -> None:
    """The first ``count`` of the record's items may be drawn, in their order."""
    row, items = floats(x, width), ints64(word(kept, _ITEMS), count)
    values, ids = floats(word(kept, _OWN_VALUES), count), ints32(word(kept, _OWN_IDS), count)
    for i in range(count):
        token = items[i] & ITEM_PLACES
        values[i], ids[i] = row[token], token
    record = ints64(kept, KEPT_WORDS)
    record[_COUNT], record[_VALUES], record[_IDS] = count, word(kept, _OWN_VALUES), word(kept, _OWN_IDS)


@leaf
def take_from(kept: int, x: int, width: int, maxima: int, low: float) -> bool:
    """Tokens whose logits are at least ``low``, which is finite, may be drawn, by rising id, if they are few; else all.

    Returns:
        Whether they are few.
    """
    blocks: Any = (width + BLOCK - 1) // BLOCK
    count: Any = 0
    for block in range(blocks):
        if floats(maxima, blocks)[block] < low:
            continue
        end, a = min(width, (block + 1) * BLOCK), splat(_ZERO)
        for i in range(block * BLOCK, end, LANES):
            a = plus_from(a, load_most(x + 4 * i, end - i, _LOWEST), low, splat(_ONE))
        count += np.int64(sum_of(a))
        if _FEW * count >= width:
            take_row(kept, x, width)
            return False
    row, found = floats(x, width), 0
    values, ids = floats(word(kept, _OWN_VALUES), width), ints32(word(kept, _OWN_IDS), width)
    for block in range(blocks):
        if floats(maxima, blocks)[block] < low:
            continue
        end = min(width, (block + 1) * BLOCK)
        for i in range(block * BLOCK, end, LANES):
            within = lanes_within(load_most(x + 4 * i, end - i, _LOWEST), low, _HIGHEST)
            while within:
                token = i + lowest_bit(within)
                within &= within - 1
                values[found], ids[found] = row[token], token
                found += 1
    record = ints64(kept, KEPT_WORDS)
    record[_COUNT], record[_VALUES], record[_IDS] = found, word(kept, _OWN_VALUES), word(kept, _OWN_IDS)
    return True


@leaf
def logit_of(weight: float, highest: float, by: float) -> Any:
    """A logit that is no higher, and hardly lower, than that of a token of some weight, at most 1."""
    return np.float32(
        highest + (largest_of(log(splat(max(np.float32(weight), SMALLEST_WEIGHT)))) - _SLACK) / by
    )


@leaf
def weigh_row(x: int, width: int, highest: float, by: float, rest: float) -> tuple[float, float]:
    """What `weigh` returns for a whole row, without weights being written."""
    total, distance = 0.0, 0.0
    for first in range(0, width, BLOCK):
        end = min(width, first + BLOCK)
        a, b = splat(_ZERO), splat(_ZERO)
        for i in range(first, end, LANES):
            value = load_most(x + 4 * i, end - i, _LOWEST)
            weight = weights(value, highest, by, rest)
            a += weight
            b += weight * at_least(value - highest, _FAR)
        total += np.float64(sum_of(a))
        distance += np.float64(sum_of(b))
    return total, distance


@leaf
def weigh(kept: int, low: float, highest: float, by: float, rest: float) -> tuple[float, float]:
    """Give all tokens their weights, those whose logits are less than ``low`` none.

    Returns:
        The sum of the weights, and that of each times how far its logit is from the best.
    """
    count, x, own = word(kept, _COUNT), word(kept, _VALUES), word(kept, _WEIGHTS)
    sums: Any = doubles(word(kept, _SUMS), (count + BLOCK - 1) // BLOCK)
    total, distance = 0.0, 0.0
    for first in range(0, count, BLOCK):
        end = min(count, first + BLOCK)
        a, b = splat(_ZERO), splat(_ZERO)
        for i in range(first, end, LANES):
            value = load_most(x + 4 * i, end - i, _LOWEST)
            weight = if_from(value, low, weights(value, highest, by, rest))
            store(own + 4 * i, weight)
            a += weight
            b += weight * at_least(value - highest, _FAR)
        here = np.float64(sum_of(a))
        sums[first // BLOCK] = here
        total += here
        distance += np.float64(sum_of(b))
    return total, distance


@exact
def nearness(x: Any, center: float) -> Any:
    """Keys of 16 logits, larger the nearer these are to ``center``: a logit up to there is its own key; all are if it is infinite."""
    beyond = at_least(x - center, _ZERO)
    return x - (beyond + beyond)


@leaf
def weight_from(kept: int, center: float, low: float) -> float:
    """The weight of the tokens whose logits are as near to ``center`` as ``low`` is, or nearer."""
    count, x, own, total = word(kept, _COUNT), word(kept, _VALUES), word(kept, _WEIGHTS), 0.0
    for i in range(0, count, LANES):
        key = nearness(load_most(x + 4 * i, count - i, _LOWEST), center)
        total += np.float64(sum_of(if_from(key, low, load(own + 4 * i))))
    return total


@leaf
def remove_below(kept: int, of: int, center: float, low: float) -> tuple[float, float]:
    """Remove tokens whose keys are less than ``low``: nearness to ``center`` of float32 ``[count]``.

    Returns:
        The sum of the weights that are left, and the largest of them.
    """
    count, own = word(kept, _COUNT), word(kept, _WEIGHTS)
    sums: Any = doubles(word(kept, _SUMS), (count + BLOCK - 1) // BLOCK)
    total, left, heaviest = 0.0, splat(_ZERO), splat(_ZERO)
    for first in range(0, count, BLOCK):
        end, a = min(count, first + BLOCK), splat(_ZERO)
        for i in range(first, end, LANES):
            key = nearness(load_most(of + 4 * i, end - i, _LOWEST), center)
            weight = if_from(key, low, load(own + 4 * i))
            store(own + 4 * i, weight)
            a += weight
            left = plus_from(left, weight, SMALLEST_WEIGHT, splat(_ONE))
            heaviest = larger(weight, heaviest)
        here = np.float64(sum_of(a))
        sums[first // BLOCK] = here
        total += here
    if count > _MANY and _FEWER * np.int64(sum_of(left)) < count:
        _move_together(kept)
    return total, largest_of(heaviest)


@exact
def _move_together(kept: int) -> None:
    count, own, known = word(kept, _COUNT), word(kept, _WEIGHTS), word(kept, _IDS)
    row, weight = floats(word(kept, _VALUES), count), floats(own, count)
    values, ids = floats(word(kept, _OWN_VALUES), count), ints32(word(kept, _OWN_IDS), count)
    found = 0
    for i in range(0, count, LANES):
        within = lanes_within(load(own + 4 * i), SMALLEST_WEIGHT, _HIGHEST)
        while within:
            place = i + lowest_bit(within)
            within &= within - 1
            values[found], weight[found] = row[place], weight[place]
            ids[found] = ids[place] if known else place
            found += 1
    for i in range(found, (found + LANES - 1) // LANES * LANES):
        weight[i] = _ZERO
    record = ints64(kept, KEPT_WORDS)
    record[_COUNT], record[_VALUES], record[_IDS] = found, word(kept, _OWN_VALUES), word(kept, _OWN_IDS)
    add_up_weights(kept)


@exact
def id_at(kept: int, place: int) -> int:
    """The id of the token at a place."""
    ids: Any = ints32(word(kept, _IDS), place + 1)
    found: Any = np.int64(ids[place]) if word(kept, _IDS) else place
    return found


@leaf
def add_up_weights(kept: int) -> None:
    """Note the sums of weights anew."""
    count, own = word(kept, _COUNT), word(kept, _WEIGHTS)
    sums: Any = doubles(word(kept, _SUMS), (count + BLOCK - 1) // BLOCK)
    for first in range(0, count, BLOCK):
        a = splat(_ZERO)
        for i in range(first, min(count, first + BLOCK), LANES):
            a += load(own + 4 * i)
        sums[first // BLOCK] = np.float64(sum_of(a))


@leaf
def drawn_place(kept: int, number: float) -> int:
    """The place at which the running sum of weights passes ``number`` times the whole; that of a token of some weight."""
    count, own = word(kept, _COUNT), word(kept, _WEIGHTS)
    blocks = (count + BLOCK - 1) // BLOCK
    sums: Any = doubles(word(kept, _SUMS), blocks)
    total = 0.0
    for block in range(blocks):
        total += sums[block]
    goal = number * total
    chosen, start, reached = 0, 0.0, 0.0
    for block in range(blocks):
        if sums[block] > 0:
            chosen, start = block, reached
            reached += sums[block]
            if reached > goal:
                break
    # Rounding may leave it short of the goal: then the last place of any weight.
    weight, place, reached = floats(own, count), 0, start
    for i in range(chosen * BLOCK, min(count, (chosen + 1) * BLOCK)):
        if weight[i] > 0:
            place = i
            reached += np.float64(weight[i])
            if reached > goal:
                break
    return place
