"""Drawing among the best ``k`` tokens of a row, and of those among the ones that make up a share of their weight.

Tokens are collected in bands of logits from the best downwards, and each band is sorted, until there are enough::

    highest            cut                  cut
       |---- band 0 ----|------ band 1 ------|---- ...
       [ items in order of their logits; of equal ones the lower id first ]
       [ reached: the running sum of their weights                        ]
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
    item_of,
    sort,
)
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64
from onnxgen.graph.cpu.compiled.lane_floats import exact

_HIGHEST = np.float32(np.inf)
_MANY = 64
_SLOWLY, _FAST, _LEAST = np.float32(1.25), np.float32(4), np.float32(0.25)
"""How the depth of bands grows after one of many tokens and of few; in temperatures, it is this at least."""
_WEIGHTLESS, _DEEP = np.float32(100), np.float32(1000)
"""Temperatures below the best at which nothing has weight, and at which all that is left is taken at once."""
_FORBIDDEN = np.float32(1e20)


@leaf
def draw_of_best(
    x: int,
    width: int,
    maxima: int,
    highest: float,
    by: float,
    rest: float,
    top_k: int,
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
        top_k: How many candidates there are at most, less than ``width``.
        top_p: The share of their weight that is enough; 1: all.
        number: In ``[0, 1)``.
        items: Address of int64 ``[width]`` to work in, as are those that follow.
        spare: Likewise.
        reached: Of float64 ``[width]``.
        scratch: Of a few KB.
    """
    floor = weightless_from(highest, by)
    size = best_items(x, width, maxima, highest, by, top_k, floor, items, spare, scratch)
    sums = doubles(reached, width)
    add_up(x, width, highest, by, rest, items, 0, size, sums, scratch, 0.0)
    if top_p < 1:
        size = min(size, first_from(sums, size, top_p * sums[size - 1]) + 1)
    whole = sums[size - 1]
    # Rounding may leave nothing beyond the goal: then the last token of any weight.
    at = min(first_beyond(sums, size, number * whole), first_from(sums, size, whole))
    return ints64(items, size)[at] & ITEM_PLACES, ints64(items, size)[size - 1]


@exact
def allowed_from(highest: float) -> Any:
    """A logit below which there is no token, only what forbids one."""
    return highest - _FORBIDDEN


@exact
def weightless_from(highest: float, by: float) -> Any:
    """A logit below which no token has any weight."""
    return highest - _WEIGHTLESS / by


@leaf
def best_items(
    x: int,
    width: int,
    maxima: int,
    highest: float,
    by: float,
    count: int,
    floor: float,
    items: int,
    spare: int,
    scratch: int,
) -> int:
    """Items of the ``count`` best tokens in order, of those whose logits are at least ``floor``; returns how many there are."""
    low = max(_first_cut(maxima, (width + BLOCK - 1) // BLOCK, count, items, spare, scratch), floor)
    high, depth, size = _HIGHEST, highest - low, 0
    while True:
        found = collect(x, width, maxima, low, high, items + 8 * size)
        sort(items + 8 * size, found, spare, scratch)
        size += found
        if size >= count or low <= floor:
            return min(size, count)
        depth = max((_SLOWLY if found > _MANY else _FAST) * depth, _LEAST / by)
        high, low = low, max(highest - depth, floor) if depth < _DEEP / by else floor


@exact
def _first_cut(maxima: int, blocks: int, top_k: int, items: int, spare: int, scratch: int) -> float:
    """A logit that ``top_k`` tokens reach, or as many as there are blocks."""
    row = floats(maxima, blocks)
    for block in range(blocks):
        ints64(items, blocks)[block] = item_of(maxima, block)
    sort(items, blocks, spare, scratch)
    return row[ints64(items, blocks)[min(top_k, blocks) - 1] & ITEM_PLACES]
