"""What cuts down the tokens of a row before one is drawn, in this order: top-n-sigma, top-k, typical, top-p, min-p, top-a, XTC.

Each looks at the probabilities of what those before it have left, and leaves at least one token. The first to cut look at logits
alone, so that only the few tokens that they leave are ever weighed.

Sources: top-n-sigma (https://arxiv.org/abs/2411.07641), typical (https://arxiv.org/abs/2202.00666), top-p
(https://arxiv.org/abs/1904.09751), min-p (https://arxiv.org/abs/2407.01082), XTC
(https://github.com/oobabooga/text-generation-webui/pull/6335).
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import item_of
from onnxgen.graph.cpu.compiled.descending import best_items, weightless_from
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Order
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import (
    FEW,
    SMALLEST_WEIGHT,
    Kept,
    num_from,
    remove_below,
    take_from,
    take_items,
    take_row,
    total_and_heaviest,
    weigh,
)
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, floats, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    exact,
    if_from,
    load_first,
    magnitude,
    splat,
    store,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_keys import lanes_within, lowest_bit
from onnxgen.graph.cpu.compiled.philox import XTC, uniform
from onnxgen.graph.cpu.compiled.row_blocks import note_maxima
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.weight_shares import keep_share

_COUNT, _VALUES, _WEIGHTS = int(Kept.COUNT), int(Kept.VALUES), int(Kept.WEIGHTS)
_KEYS, _MAXIMA, _ITEMS, _SPARE = int(Kept.KEYS), int(Kept.MAXIMA), int(Kept.ITEMS), int(Kept.SPARE)
_BY, _BY_REST, _TOP_K, _TOP_P = int(Order.BY), int(Order.BY_REST), int(Order.TOP_K), int(Order.TOP_P)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)
_TOP_N_SIGMA, _TYPICAL_P, _MIN_P = int(Order.TOP_N_SIGMA), int(Order.TYPICAL_P), int(Order.MIN_P)
_DEPTH, _TOP_A = int(Order.DEPTH), int(Order.TOP_A)
_XTC_PROBABILITY, _XTC_THRESHOLD = int(Order.XTC_PROBABILITY), int(Order.XTC_THRESHOLD)

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO, _ONE, _FAR = np.float32(0), np.float32(1), np.float32(-1e20)


@leaf
def filter_row(order: int, x: int, width: int, maxima: int, highest: float, kept: int, scratch: int) -> None:
    """Leave in the record what may be drawn of a row of logits."""
    by, rest = float_word(order, _BY), float_word(order, _BY_REST)
    options = doubles(order, ORDER_WORDS)
    floor = np.float32(highest - np.float32(options[_DEPTH]) / by)
    sigmas, top_k = options[_TOP_N_SIGMA], word(order, _TOP_K)
    if sigmas > 0:
        floor = max(floor, np.float32(highest - sigmas * _deviation(x, width, highest)))
    if top_k > 0:
        floor = max(floor, weightless_from(highest, by))
        items, spare = word(kept, _ITEMS), word(kept, _SPARE)
        found = best_items(x, width, maxima, highest, by, top_k, floor, items, spare, scratch)
        take_items(kept, x, width, found)
    elif floor > _LOWEST and FEW * num_from(x, width, maxima, floor) < width:
        take_from(kept, x, width, maxima, floor)
    else:
        take_row(kept, x, width)
    total, distance = weigh(kept, floor, highest, by, rest)
    for sharing in range(2):
        share = options[_TYPICAL_P] if sharing == 0 else options[_TOP_P]
        if share < 1:
            keys, center = word(kept, _VALUES), _ZERO
            if sharing == 0:
                # The mean is the logit of a token that is as surprising as is to be expected.
                keys, center = word(kept, _KEYS), np.float32(highest + distance / total)
                _note_nearness(kept, center)
            nearest = note_maxima(keys, word(kept, _COUNT), word(kept, _MAXIMA))
            keep_share(kept, keys, nearest, center, share, highest, by, rest, scratch)
    for filtering in range(2):
        strictness = options[_MIN_P] if filtering == 0 else options[_TOP_A]
        if strictness > 0:
            total, heaviest = total_and_heaviest(kept)
            least = strictness * heaviest * (1 if filtering == 0 else heaviest / total)
            remove_below(kept, word(kept, _WEIGHTS), np.float32(min(least, heaviest)))
    if options[_XTC_PROBABILITY] > 0:
        number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION), XTC)
        if number < options[_XTC_PROBABILITY]:
            total, heaviest = total_and_heaviest(kept)
            _exclude_top_choices(kept, options[_XTC_THRESHOLD] * total)


@leaf
def _deviation(x: int, width: int, highest: float) -> float:
    """The standard deviation of the logits, of those that are not forbidden."""
    count, total, squares = 0, 0.0, 0.0
    for first in range(0, width, BLOCK):
        end, a, b = min(width, first + BLOCK), splat(_ZERO), splat(_ZERO)
        for i in range(first, end, LANES):
            value = load_first(x + 4 * i, end - i, _LOWEST) - highest
            a += if_from(value, _FAR, _ONE)
            b += if_from(value, _FAR, value)
        count += np.int64(sum_of(a))
        total += np.float64(sum_of(b))
    mean = np.float32(total / count)
    for first in range(0, width, BLOCK):
        end, a = min(width, first + BLOCK), splat(_ZERO)
        for i in range(first, end, LANES):
            value = load_first(x + 4 * i, end - i, _LOWEST) - highest
            a += if_from(value, _FAR, (value - mean) * (value - mean))
        squares += np.float64(sum_of(a))
    return np.sqrt(squares / count)


@exact
def _note_nearness(kept: int, center: float) -> None:
    """Write keys that are larger the nearer a token's logit is to ``center``."""
    count, x, keys = word(kept, _COUNT), word(kept, _VALUES), word(kept, _KEYS)
    for i in range(0, count, LANES):
        store(keys + 4 * i, splat(_ZERO) - magnitude(load_first(x + 4 * i, count - i, _LOWEST) - center))


@leaf
def _exclude_top_choices(kept: int, least: float) -> None:
    """Of the tokens that weigh at least so much remove all but the least likely."""
    count, own, x = word(kept, _COUNT), word(kept, _WEIGHTS), word(kept, _VALUES)
    weight, low = floats(own, count), max(np.float32(least), SMALLEST_WEIGHT)
    last, worst = -1, 0
    for i in range(0, count, LANES):
        within = lanes_within(load_first(own + 4 * i, count - i, _ZERO), low, _HIGHEST)
        while within:
            place = i + lowest_bit(within)
            within &= within - 1
            item = item_of(x, place)
            if last < 0:
                last, worst = place, item
            elif item > worst:
                weight[last] = _ZERO
                last, worst = place, item
            else:
                weight[place] = _ZERO
