"""Mirostat (https://arxiv.org/abs/2007.14966): how surprising a token may be is what narrows the choice."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import math

import numpy as np

from onnxgen.graph.cpu.compiled.descending import allowed_from, best_items, weightless_from
from onnxgen.graph.cpu.compiled.draw_orders import ITEM_PLACES, Narrowing, Order
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import (
    Kept,
    logit_of,
    remove_below,
    take_from,
    take_items,
    take_row,
    weigh,
    weigh_row,
)
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import exact

MOST_RANKED = 100
"""Of so many of the best tokens the probabilities tell how fast they fall."""

_FALLS = tuple(math.log((i + 2) / (i + 1)) for i in range(MOST_RANKED - 1))
"""How fast the logarithms of probabilities would fall from rank to rank if Zipf's exponent were 1."""

_BY, _BY_REST, _TOP_K = int(Order.BY), int(Order.BY_REST), int(Order.TOP_K)
_NARROWING, _LEAST = int(Order.NARROWING), int(Order.LEAST)
_FIRST = int(Narrowing.MIROSTAT)
_WEIGHTS, _ITEMS, _SPARE = int(Kept.WEIGHTS), int(Kept.ITEMS), int(Kept.SPARE)
_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)


@leaf
def keep_unsurprising(
    order: int, x: int, width: int, maxima: int, highest: float, kept: int, scratch: int
) -> float:
    """Leave in the record what may be drawn of a row; returns the weight of all tokens."""
    by, rest = float_word(order, _BY), float_word(order, _BY_REST)
    top_k, floor = word(order, _TOP_K), _LOWEST
    total, _ = weigh_row(x, width, highest, by, rest)
    least = total * doubles(order + 8 * _LEAST, 1)[0]
    if word(order, _NARROWING) == _FIRST and top_k > 0:
        items, spare = word(kept, _ITEMS), word(kept, _SPARE)
        floor = weightless_from(highest, by)
        found = best_items(x, width, maxima, highest, by, top_k, floor, items, spare, scratch)
        take_items(kept, x, width, found)
    elif least > 0:
        floor = logit_of(min(least, 1.0), highest, by)
        take_from(kept, x, width, maxima, floor)
    else:
        take_row(kept, x, width)
    weigh(kept, floor, highest, by, rest)
    if least > 0:
        remove_below(kept, word(kept, _WEIGHTS), _HIGHEST, np.float32(min(least, 1.0)))
    return total


@leaf
def zipf_exponent(
    order: int, x: int, width: int, maxima: int, highest: float, kept: int, scratch: int
) -> float:
    """The exponent of Zipf's law that a row's best tokens follow; NaN where there are no two."""
    by, items, spare = float_word(order, _BY), word(kept, _ITEMS), word(kept, _SPARE)
    floor, most = allowed_from(highest), min(width, MOST_RANKED)
    found = best_items(x, width, maxima, highest, by, most, floor, items, spare, scratch)
    return _exponent(x, width, by, items, found) if found > 1 else np.nan


@exact
def _exponent(x: int, width: int, by: float, items: int, count: int) -> float:
    """The least squares estimate, from how far each token's logit is below that of the one before it."""
    row, ranked = floats(x, width), ints64(items, count)
    products, squares = 0.0, 0.0
    for i in range(count - 1):
        here, following = row[ranked[i] & ITEM_PLACES], row[ranked[i + 1] & ITEM_PLACES]
        products += _FALLS[i] * (np.float64(here) - np.float64(following)) * by
        squares += _FALLS[i] * _FALLS[i]
    return products / squares
