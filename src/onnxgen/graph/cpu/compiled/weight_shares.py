"""Keeping those tokens with the largest keys that make up a share of the weight: keys are logits, or how typical tokens are.

The last of them is found as the end of a nucleus is (`onnxgen.graph.cpu.compiled.nucleus`), but weights are in memory, and need
not grow with keys.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import collect, first_from, sort
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import Kept, remove_below
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    if_from,
    largest_of,
    load,
    load_first,
    splat,
    sum_of,
)
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_COUNT, _WEIGHTS, _MAXIMA = int(Kept.COUNT), int(Kept.WEIGHTS), int(Kept.MAXIMA)
_ITEMS, _SPARE = int(Kept.ITEMS), int(Kept.SPARE)

_DEPTHS = (0.5, 1.0, 2.0, 3.5, 5.5, 8.0, 12.0, 90.0)
"""The first edges, in temperatures below the largest key; below the last of them nothing has weight."""
_EDGES = len(_DEPTHS)
_FEW = 4096
"""So many tokens are rather sorted than cut again."""
_MOST_CUTS = 6
"""Equal keys cannot be cut apart."""

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)
_EDGES_AT, _MASSES_AT = 4096, 4160
"""Bytes from the start of scratch memory; what sorts is before them."""


@leaf
def keep_share(
    kept: int,
    keys: int,
    nearest: float,
    center: float,
    share: float,
    highest: float,
    by: float,
    rest: float,
    scratch: int,
) -> None:
    """Remove all but the tokens with the largest keys that together weigh at least ``share`` of the whole; one stays.

    Of equal keys those that come first stay.

    Args:
        kept: The record; the maxima of blocks of keys are noted in it.
        keys: Address of float32 ``[count]``.
        nearest: The largest of them.
        center: What is added to a key to get the logit of the least weight that has this key: 0 where keys are logits.
        share: Below 1.
        highest: The logit of weight 1.
        by: With ``rest`` the inverse temperature.
        rest: See there.
        scratch: Of a few KB.
    """
    count, maxima, items = word(kept, _COUNT), word(kept, _MAXIMA), word(kept, _ITEMS)
    edges, masses = scratch + _EDGES_AT, scratch + _MASSES_AT
    limits, held = floats(edges, _EDGES), doubles(masses, _EDGES)
    for edge in range(_EDGES):
        limits[edge] = nearest - np.float32(_DEPTHS[edge]) / by
    _weigh_from(kept, keys, edges, masses)
    goal = share * held[_EDGES - 1]
    high, above, cuts = _HIGHEST, 0.0, 0
    while True:
        piece = min(first_from(held, _EDGES, goal), first_from(held, _EDGES, held[_EDGES - 1]))
        if piece > 0:
            high, above = limits[piece - 1], held[piece - 1]
        low, below = limits[piece], held[piece]
        least = largest_of(weights(splat(center + low), highest, by, rest))
        if cuts == _MOST_CUTS or below - above <= _FEW * least:
            break  # all tokens of the piece weigh as much as the lightest, at least
        if _num_within(keys, count, maxima, low, high) <= _FEW:
            break
        cuts += 1
        step = (min(high, nearest) - low) / np.float32(_EDGES)
        for edge in range(_EDGES):
            limits[edge] = low + np.float32(_EDGES - 1 - edge) * step
        _weigh_from(kept, keys, edges, masses)
    found = collect(keys, count, maxima, low, high, items)
    sort(items, found, word(kept, _SPARE), scratch)
    own, sorted_items = floats(word(kept, _WEIGHTS), count), ints64(items, found)
    at, reached = 0, above + np.float64(own[sorted_items[0] & ITEM_PLACES])
    while reached < goal and at + 1 < found:
        at += 1
        reached += np.float64(own[sorted_items[at] & ITEM_PLACES])
    key = floats(keys, count)[sorted_items[at] & ITEM_PLACES]
    # Some of these may have the same key as the last to stay.
    for i in range(at + 1, found):
        own[sorted_items[i] & ITEM_PLACES] = _ZERO
    remove_below(kept, keys, key)


@leaf
def _num_within(keys: int, count: int, maxima: int, low: float, high: float) -> int:
    """How many keys are from ``low`` on and below ``high``."""
    blocks: Any = (count + BLOCK - 1) // BLOCK
    found: Any = 0
    for block in range(blocks):
        if floats(maxima, blocks)[block] < low:
            continue
        end, a = min(count, (block + 1) * BLOCK), splat(_ZERO)
        for i in range(block * BLOCK, end, LANES):
            key = load_first(keys + 4 * i, end - i, _LOWEST)
            a += if_from(key, low, _ONE) - if_from(key, high, _ONE)
        found += np.int64(sum_of(a))
    return found


@leaf
def _weigh_from(kept: int, keys: int, edges: int, masses: int) -> None:
    """The weight of all keys from each edge on; edges descend."""
    count, own, maxima = word(kept, _COUNT), word(kept, _WEIGHTS), word(kept, _MAXIMA)
    limits, sums = floats(edges, _EDGES), doubles(masses, _EDGES)
    for edge in range(_EDGES):
        sums[edge] = 0.0
    blocks = (count + BLOCK - 1) // BLOCK
    for block in range(blocks):
        best = floats(maxima, blocks)[block]
        first, end = block * BLOCK, min(count, (block + 1) * BLOCK)
        # Four at once, each addition of which waits for the one before.
        for edge in range(0, _EDGES, 4):
            if best < limits[edge + 3]:
                continue
            a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
            for i in range(first, end, LANES):
                key, weight = load_first(keys + 4 * i, end - i, _LOWEST), load(own + 4 * i)
                a += if_from(key, limits[edge], weight)
                b += if_from(key, limits[edge + 1], weight)
                c += if_from(key, limits[edge + 2], weight)
                d += if_from(key, limits[edge + 3], weight)
            sums[edge] += np.float64(sum_of(a))
            sums[edge + 1] += np.float64(sum_of(b))
            sums[edge + 2] += np.float64(sum_of(c))
            sums[edge + 3] += np.float64(sum_of(d))
