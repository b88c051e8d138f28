"""Drawing among the best tokens of a row that make up a share of its weight, however many they are.

Both the last of them and the drawn one are found the same way: a range of logits in which the running sum of weights, from
the best downwards, passes a goal is cut by edges, and the weight above each edge tells in which piece it does so::

    highest   edge    edge    edge                  edge
       |-------|-------|---x---|--------- ... --------|       x: where the goal is
                       |..|..|..|                             cut again while there may be many tokens in it

Few tokens are collected and sorted.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import (
    add_up,
    collect,
    first_beyond,
    first_from,
    sort,
)
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64
from onnxgen.graph.cpu.compiled.lane_floats import (
    if_from,
    largest_of,
    load,
    load_first,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_DEPTHS = (1.0, 2.0, 3.5, 5.5, 8.0, 11.0, 16.0, 90.0)
"""The first edges, in temperatures below the best; below the last of them nothing has weight."""
_EDGES = len(_DEPTHS)
_FEW = 1024
"""So many tokens are rather sorted than cut again."""
_MOST_CUTS = 6
"""Equal logits cannot be cut apart."""

_LOWEST, _HIGHEST, _ZERO = np.float32(-np.inf), np.float32(np.inf), np.float32(0)
_FIRST_EDGES, _FIRST_MASSES, _NEXT_EDGES, _NEXT_MASSES, _OF_BLOCK = 4096, 4160, 4224, 4288, 8192
"""Bytes from the start of scratch memory; what sorts is before them."""


@leaf
def draw_of_nucleus(
    x: int,
    width: int,
    maxima: int,
    highest: float,
    by: float,
    rest: float,
    top_p: float,
    number: float,
    items: int,
    spare: int,
    reached: int,
    scratch: int,
) -> tuple[int, int]:
    """The token at which the running sum of the candidates' weights passes ``number`` times the whole; and the item of the last candidate.

    Args:
        x: Address of the logits.
        width: How many there are.
        maxima: Address of each block's maximum.
        highest: The largest of them.
        by: With ``rest`` the inverse temperature.
        rest: See there.
        top_p: The share of the weight that is enough, below 1.
        number: In ``[0, 1)``.
        items: Address of int64 ``[width]`` to work in, as are those that follow.
        spare: Likewise.
        reached: Of float64 ``[width]``.
        scratch: Of a few KB.
    """
    edges = floats(scratch + _FIRST_EDGES, _EDGES)
    for edge in range(_EDGES):
        edges[edge] = highest - np.float32(_DEPTHS[edge]) / by
    _weigh(x, width, maxima, highest, by, rest, scratch + _FIRST_EDGES, scratch + _FIRST_MASSES, scratch)
    goal = top_p * doubles(scratch + _FIRST_MASSES, _EDGES)[_EDGES - 1]
    last, kept, token = 0, 0.0, 0
    for drawing in range(2):
        at = _find(x, width, maxima, highest, by, rest, goal, drawing > 0, items, spare, reached, scratch)
        item = ints64(items, width)[at]
        if drawing == 0:
            last, kept = item, doubles(reached, width)[at]
            goal = number * kept
        else:
            # Rounding never leads beyond the last candidate.
            token = min(item, last) & ITEM_PLACES
    return token, last


@leaf
def _find(
    x: int,
    width: int,
    maxima: int,
    highest: float,
    by: float,
    rest: float,
    goal: float,
    beyond: bool,
    items: int,
    spare: int,
    reached: int,
    scratch: int,
) -> int:
    """Collect the items around the one at which the running sum gets to ``goal``, or beyond; returns its index among them."""
    edges, masses = scratch + _FIRST_EDGES, scratch + _FIRST_MASSES
    high, above, cuts = _HIGHEST, 0.0, 0
    while True:
        held = doubles(masses, _EDGES)
        piece = first_beyond(held, _EDGES, goal) if beyond else first_from(held, _EDGES, goal)
        piece = min(piece, first_from(held, _EDGES, held[_EDGES - 1]))
        if piece > 0:
            high, above = floats(edges, _EDGES)[piece - 1], held[piece - 1]
        low, below = floats(edges, _EDGES)[piece], held[piece]
        least = largest_of(weights(splat(low), highest, by, rest))
        if cuts == _MOST_CUTS or below - above <= _FEW * least:
            break
        cuts += 1
        edges, masses = scratch + _NEXT_EDGES, scratch + _NEXT_MASSES
        step = (min(high, highest) - low) / np.float32(_EDGES)
        for edge in range(_EDGES):
            floats(edges, _EDGES)[edge] = low + np.float32(_EDGES - 1 - edge) * step
        _weigh(x, width, maxima, highest, by, rest, edges, masses, scratch)
    found, sums = collect(x, width, maxima, low, high, items), doubles(reached, width)
    sort(items, found, spare, scratch)
    add_up(x, width, highest, by, rest, items, 0, found, sums, scratch, above)
    at = first_beyond(sums, found, goal) if beyond else first_from(sums, found, goal)
    return min(at, found - 1)


@leaf
def _weigh(
    x: int,
    width: int,
    maxima: int,
    highest: float,
    by: float,
    rest: float,
    edges: int,
    masses: int,
    scratch: int,
) -> None:
    """The weight of all logits from each edge on; edges descend."""
    limits, sums = floats(edges, _EDGES), doubles(masses, _EDGES)
    for edge in range(_EDGES):
        sums[edge] = 0.0
    blocks, own = (width + BLOCK - 1) // BLOCK, scratch + _OF_BLOCK
    for block in range(blocks):
        best = floats(maxima, blocks)[block]
        if best < limits[_EDGES - 1]:
            continue
        first = x + 4 * block * BLOCK
        count = min(BLOCK, width - block * BLOCK)
        for i in range(0, count, LANES):
            value = load_first(first + 4 * i, count - i, _LOWEST)
            store(own + 8 * i, value)
            store(own + 8 * i + 64, weights(value, highest, by, rest))
        # Four at once, each addition of which waits for the one before.
        for edge in range(0, _EDGES, 4):
            if best < limits[edge + 3]:
                continue
            a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
            for i in range(0, count, LANES):
                value, weight = load(own + 8 * i), load(own + 8 * i + 64)
                a += if_from(value, limits[edge], weight)
                b += if_from(value, limits[edge + 1], weight)
                c += if_from(value, limits[edge + 2], weight)
                d += if_from(value, limits[edge + 3], weight)
            sums[edge] += np.float64(sum_of(a))
            sums[edge + 1] += np.float64(sum_of(b))
            sums[edge + 2] += np.float64(sum_of(c))
            sums[edge + 3] += np.float64(sum_of(d))
