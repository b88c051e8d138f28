"""Keeping those tokens with the largest keys that make up a share of the weight: keys are logits, or how typical tokens are.

The last of them is found as the end of a nucleus is (`onnxgen.graph.cpu.compiled.nucleus`), but weights are in memory, and need
not grow with keys.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import first_from, item_of, sort
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import Kept, nearness, remove_below
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    largest_of,
    load,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_keys import lanes_within, lowest_bit
from onnxgen.graph.cpu.compiled.lane_sums import load_most, plus_from
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_COUNT, _VALUES, _WEIGHTS = int(Kept.COUNT), int(Kept.VALUES), int(Kept.WEIGHTS)
_ITEMS, _SPARE = int(Kept.ITEMS), int(Kept.SPARE)

_EDGES = 4
_DEPTHS = (1.0, 3.0, 6.0, 10.0, 14.0, 20.0, 30.0, 50.0)
"""The first edges, and those for what is below them all, in temperatures below the largest key there may be."""
_DEEPEST = np.float32(90)
"""Below it nothing has weight."""
_SETS = len(_DEPTHS) // _EDGES
_AROUND = (0.2, 0.06, -0.06, -0.2)
"""Later edges, around where the goal is likely to be, in lengths of the piece."""
_FEW = 8192
"""So many tokens are rather collected than cut again."""
_MOST_CUTS = 8
"""Equal keys cannot be cut apart."""
_BINS, _FEW_ITEMS = 256, 64

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO = np.float32(0)
_EDGES_AT, _MASSES_AT, _BINS_AT = 4096, 4160, 8192
"""Bytes from the start of scratch memory; what sorts is before them."""


@leaf
def keep_share(
    kept: int,
    maxima: int,
    center: float,
    goal: float,
    whole: float,
    highest: float,
    by: float,
    rest: float,
    scratch: int,
) -> tuple[float, float]:
    """Remove all but the tokens with the largest keys that together weigh at least ``goal``; one stays.

    Of equal keys those that come first stay.

    Args:
        kept: The record.
        maxima: Address of the largest logit of each block of it.
        center: Keys are nearness to this logit; infinite where they are the logits themselves.
        goal: Above 0, or a little above.
        whole: What all tokens of the record weigh.
        highest: The logit of weight 1, which no other exceeds.
        by: With ``rest`` the inverse temperature.
        rest: See there.
        scratch: Of some KB.

    Returns:
        The weight that is left, and the largest weight.
    """
    limits, held = floats(scratch + _EDGES_AT, _EDGES), doubles(scratch + _MASSES_AT, _EDGES)
    nearest = min(highest, center)
    high, above, low, below = _HIGHEST, 0.0, nearest - _DEEPEST / by, whole
    goal, cuts = min(goal, whole), 0
    least = _ZERO
    # All tokens of a piece weigh as much as the lightest, at least.
    while cuts < _MOST_CUTS and below - above > _FEW * least:
        # As if weight were spread evenly over the piece.
        top = min(high, nearest)
        likely = low + np.float32((below - goal) / (below - above)) * (top - low)
        for edge in range(_EDGES):
            if cuts < _SETS:
                limits[edge] = nearest - np.float32(_DEPTHS[_EDGES * cuts + edge]) / by
            else:
                limits[edge] = max(low, min(top, likely + np.float32(_AROUND[edge]) * (top - low)))
        _weigh_from(kept, maxima, center, scratch)
        piece = first_from(held, _EDGES, goal)
        if piece > 0:
            high, above = limits[piece - 1], held[piece - 1]
        cuts += 1
        if piece < _EDGES:
            low, below = limits[piece], held[piece]
            cuts = max(cuts, _SETS)
        least = largest_of(weights(splat(low), highest, by, rest))
    found = _collect(kept, maxima, center, low, high, scratch)
    found, reached = _part_of(kept, found, above, goal, scratch)
    sort(word(kept, _ITEMS), found, word(kept, _SPARE), scratch)
    own, items = floats(word(kept, _WEIGHTS), word(kept, _COUNT)), ints64(word(kept, _ITEMS), found)
    at = 0
    reached += np.float64(own[items[0] & ITEM_PLACES])
    while reached < goal and at + 1 < found:
        at += 1
        reached += np.float64(own[items[at] & ITEM_PLACES])
    # Some of those behind may have the same key as the last to stay.
    for i in range(at + 1, found):
        own[items[i] & ITEM_PLACES] = _ZERO
    last = floats(word(kept, _VALUES), word(kept, _COUNT))[items[at] & ITEM_PLACES]
    return remove_below(kept, word(kept, _VALUES), center, largest_of(nearness(splat(last), center)))


@leaf
def _weigh_from(kept: int, maxima: int, center: float, scratch: int) -> None:
    """The weight of all keys from each edge on; edges descend."""
    limits, sums = floats(scratch + _EDGES_AT, _EDGES), doubles(scratch + _MASSES_AT, _EDGES)
    count, x, own = word(kept, _COUNT), word(kept, _VALUES), word(kept, _WEIGHTS)
    for edge in range(_EDGES):
        sums[edge] = 0.0
    blocks = (count + BLOCK - 1) // BLOCK
    for block in range(blocks):
        if min(floats(maxima, blocks)[block], center) < limits[_EDGES - 1]:
            continue
        end = min(count, (block + 1) * BLOCK)
        a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
        for i in range(block * BLOCK, end, LANES):
            key = nearness(load_most(x + 4 * i, end - i, _LOWEST), center)
            weight = load(own + 4 * i)
            a = plus_from(a, key, limits[0], weight)
            b = plus_from(b, key, limits[1], weight)
            c = plus_from(c, key, limits[2], weight)
            d = plus_from(d, key, limits[3], weight)
        sums[0] += np.float64(sum_of(a))
        sums[1] += np.float64(sum_of(b))
        sums[2] += np.float64(sum_of(c))
        sums[3] += np.float64(sum_of(d))


@leaf
def _collect(kept: int, maxima: int, center: float, low: float, high: float, scratch: int) -> int:
    """Write an item for each key from ``low`` on and below ``high``, by place; returns how many there are."""
    count, x = word(kept, _COUNT), word(kept, _VALUES)
    items, blocks, found = ints64(word(kept, _ITEMS), count), (count + BLOCK - 1) // BLOCK, 0
    for block in range(blocks):
        if min(floats(maxima, blocks)[block], center) < low:
            continue
        end = min(count, (block + 1) * BLOCK)
        for i in range(block * BLOCK, end, LANES):
            key = nearness(load_most(x + 4 * i, end - i, _LOWEST), center)
            within = lanes_within(key, low, high)
            if within:
                store(scratch, key)
            while within:
                items[found] = item_of(scratch, lowest_bit(within)) + i
                found += 1
                within &= within - 1
    return found


@leaf
def _part_of(kept: int, found: int, above: float, goal: float, scratch: int) -> tuple[int, float]:
    """Leave the few items among which the running sum of weights gets to ``goal``, by place.

    Returns:
        How many they are, and the weight of all before them. Equal ones cannot be told apart, and may be many.
    """
    own, items = floats(word(kept, _WEIGHTS), word(kept, _COUNT)), ints64(word(kept, _ITEMS), found)
    masses = doubles(scratch + _BINS_AT, _BINS)
    while found > _FEW_ITEMS:
        best: Any = items[0] >> 32
        worst: Any = best
        for i in range(found):
            best, worst = min(best, items[i] >> 32), max(worst, items[i] >> 32)
        if best == worst:
            break
        shift = 0
        while (worst - best) >> shift >= _BINS:
            shift += 1
        for i in range(_BINS):
            masses[i] = 0.0
        for i in range(found):
            masses[((items[i] >> 32) - best) >> shift] += np.float64(own[items[i] & ITEM_PLACES])
        chosen = 0
        while above + masses[chosen] < goal and chosen < (worst - best) >> shift:
            above += masses[chosen]
            chosen += 1
        left = 0
        for i in range(found):
            if ((items[i] >> 32) - best) >> shift == chosen:
                items[left] = items[i]
                left += 1
        found = left
    return found, above
