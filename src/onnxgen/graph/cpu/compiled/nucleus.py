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

from typing import Any

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
    largest_of,
    load,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_sums import load_most, plus_from
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_DEPTHS = (1.0, 2.0, 3.5, 5.5, 8.0, 11.0, 16.0, 90.0)
"""The first edges, in temperatures below the best; below the last of them nothing has weight."""
_EDGES = len(_DEPTHS)
_HALF = _EDGES // 2
_FEW = 1024
"""So many tokens are rather sorted than cut again."""
_MOST_CUTS = 6
"""Equal logits cannot be cut apart."""

_LOWEST, _HIGHEST, _ZERO = np.float32(-np.inf), np.float32(np.inf), np.float32(0)
_FIRST_EDGES, _FIRST_MASSES, _NEXT_EDGES, _NEXT_MASSES = 4096, 4160, 4224, 4288
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
    weighed: int,
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
        weighed: Of float32 ``[width]``, up to a multiple of 16.
        scratch: Of a few KB.
    """
    edges, held = floats(scratch + _FIRST_EDGES, _EDGES), doubles(scratch + _FIRST_MASSES, _EDGES)
    whole = _weigh_all(x, width, highest, by, rest, weighed)
    goal = top_p * whole
    for edge in range(_EDGES):
        edges[edge], held[edge] = highest - np.float32(_DEPTHS[edge]) / by, whole
    _weigh_from(x, width, maxima, weighed, scratch + _FIRST_EDGES, scratch + _FIRST_MASSES)
    if held[_HALF - 1] < goal:
        _weigh_from(
            x, width, maxima, weighed, scratch + _FIRST_EDGES + 4 * _HALF, scratch + _FIRST_MASSES + 8 * _HALF
        )
    last, kept, token = 0, 0.0, 0
    for drawing in range(2):
        at = _find(
            x,
            width,
            maxima,
            highest,
            by,
            rest,
            goal,
            drawing > 0,
            items,
            spare,
            reached,
            weighed,
            scratch,
        )
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
    weighed: int,
    scratch: int,
) -> int:
    """Collect the items around the one at which the running sum gets to ``goal``, or beyond; returns its index among them."""
    edges, masses = scratch + _FIRST_EDGES, scratch + _FIRST_MASSES
    high, above, cuts = _HIGHEST, 0.0, 0
    held = doubles(masses, _EDGES)
    piece = _piece(held, goal, beyond)
    while True:
        if piece > 0:
            high, above = floats(edges, _EDGES)[piece - 1], held[piece - 1]
        low, below = floats(edges, _EDGES)[piece], held[piece]
        least = largest_of(weights(splat(low), highest, by, rest))
        if cuts == _MOST_CUTS or below - above <= _FEW * least:
            break
        cuts += 1
        edges, masses = scratch + _NEXT_EDGES, scratch + _NEXT_MASSES
        held = doubles(masses, _EDGES)
        step = (min(high, highest) - low) / np.float32(_EDGES)
        for edge in range(_EDGES):
            floats(edges, _EDGES)[edge] = low + np.float32(_EDGES - 1 - edge) * step
            held[edge] = below
        # Half of the edges tell enough if the goal is among them, where it seems to be.
        half = 0 if 2 * goal <= above + below else _HALF
        for edge in range(half):
            held[edge] = above
        for _ in range(2):
            _weigh_from(x, width, maxima, weighed, edges + 4 * half, masses + 8 * half)
            piece = _piece(held, goal, beyond)
            if (piece < _HALF) == (half == 0) and piece != _HALF:
                break
            half = _HALF - half
    found, sums = collect(x, width, maxima, low, high, items), doubles(reached, width)
    sort(items, found, spare, scratch)
    add_up(x, width, highest, by, rest, items, 0, found, sums, scratch, above)
    at = first_beyond(sums, found, goal) if beyond else first_from(sums, found, goal)
    return min(at, found - 1)


@leaf
def _piece(held: Any, goal: float, beyond: bool) -> int:
    """The first edge from which on the weight gets to the goal, or beyond; or to all that there is."""
    piece = first_beyond(held, _EDGES, goal) if beyond else first_from(held, _EDGES, goal)
    return min(piece, first_from(held, _EDGES, held[_EDGES - 1]))


@leaf
def _weigh_all(x: int, width: int, highest: float, by: float, rest: float, weighed: int) -> float:
    """Write the weights of all logits; returns their sum."""
    whole = 0.0
    for first in range(0, width, BLOCK):
        end, a = min(width, first + BLOCK), splat(_ZERO)
        for i in range(first, end, LANES):
            weight = weights(load_most(x + 4 * i, end - i, _LOWEST), highest, by, rest)
            store(weighed + 4 * i, weight)
            a += weight
        whole += np.float64(sum_of(a))
    return whole


@leaf
def _weigh_from(x: int, width: int, maxima: int, weighed: int, edges: int, masses: int) -> None:
    """The weight of all logits from each of four edges on; edges descend."""
    limits, sums = floats(edges, _HALF), doubles(masses, _HALF)
    for edge in range(_HALF):
        sums[edge] = 0.0
    blocks = (width + BLOCK - 1) // BLOCK
    for block in range(blocks):
        if floats(maxima, blocks)[block] < limits[_HALF - 1]:
            continue
        end = min(width, (block + 1) * BLOCK)
        # Four at once, each addition of which waits for the one before.
        a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
        for i in range(block * BLOCK, end, LANES):
            value, weight = load_most(x + 4 * i, end - i, _LOWEST), load(weighed + 4 * i)
            a = plus_from(a, value, limits[0], weight)
            b = plus_from(b, value, limits[1], weight)
            c = plus_from(c, value, limits[2], weight)
            d = plus_from(d, value, limits[3], weight)
        sums[0] += np.float64(sum_of(a))
        sums[1] += np.float64(sum_of(b))
        sums[2] += np.float64(sum_of(c))
        sums[3] += np.float64(sum_of(d))
