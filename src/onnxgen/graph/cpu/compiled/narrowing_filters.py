"""What cuts down the tokens of a row before one is drawn, in this order: top-n-sigma, top-k, typical, top-p, min-p, top-a, XTC.

Each looks at the probabilities of what those before it have left, and leaves at least one token. Where the first to cut looks at
logits alone, only the few tokens that it leaves are ever weighed; where it needs the weight of the row, all are weighed once, and
the few likely ones are picked out for all filters, if no others can be left.

Sources: top-n-sigma (https://arxiv.org/abs/2411.07641), typical (https://arxiv.org/abs/2202.00666), top-p
(https://arxiv.org/abs/1904.09751), min-p (https://arxiv.org/abs/2407.01082), XTC
(https://github.com/oobabooga/text-generation-webui/pull/6335).
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.candidate_items import item_of
from onnxgen.graph.cpu.compiled.descending import best_items, weightless_from
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, Order
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kept_tokens import (
    SMALLEST_WEIGHT,
    Kept,
    add_up_weights,
    logit_of,
    remove_below,
    take_from,
    take_items,
    take_row,
    weigh,
    weigh_row,
    weight_from,
)
from onnxgen.graph.cpu.compiled.kernel import doubles, float_word, floats, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    if_from,
    load_first,
    splat,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_keys import lanes_within, lowest_bit
from onnxgen.graph.cpu.compiled.philox import XTC, uniform
from onnxgen.graph.cpu.compiled.row_blocks import note_maxima
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.weight_shares import keep_share

_COUNT, _VALUES, _WEIGHTS = int(Kept.COUNT), int(Kept.VALUES), int(Kept.WEIGHTS)
_MAXIMA, _ITEMS, _SPARE = int(Kept.MAXIMA), int(Kept.ITEMS), int(Kept.SPARE)
_BY, _BY_REST, _TOP_K, _TOP_P = int(Order.BY), int(Order.BY_REST), int(Order.TOP_K), int(Order.TOP_P)
_SEED, _STREAM, _POSITION = int(Order.SEED), int(Order.STREAM), int(Order.POSITION)
_TOP_N_SIGMA, _TYPICAL_P, _MIN_P = int(Order.TOP_N_SIGMA), int(Order.TYPICAL_P), int(Order.MIN_P)
_DEPTH, _TOP_A = int(Order.DEPTH), int(Order.TOP_A)
_XTC_PROBABILITY, _XTC_THRESHOLD = int(Order.XTC_PROBABILITY), int(Order.XTC_THRESHOLD)

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO, _ONE, _FAR = np.float32(0), np.float32(1), np.float32(-1e20)
_LIKELY = np.float32(8)
"""Temperatures below the best at which tokens end that are likely, where the model is sure."""


@leaf
def filter_row(order: int, x: int, width: int, maxima: int, highest: float, kept: int, scratch: int) -> None:
    """Leave in the record what may be drawn of a row of logits."""
    by, rest = float_word(order, _BY), float_word(order, _BY_REST)
    options = doubles(order, ORDER_WORDS)
    floor = np.float32(highest - np.float32(options[_DEPTH]) / by)
    sigmas, top_k = options[_TOP_N_SIGMA], word(order, _TOP_K)
    if sigmas > 0:
        floor = max(floor, np.float32(highest - sigmas * _deviation(x, width, highest)))
    total, center, whole = np.nan, _HIGHEST, np.nan
    if top_k > 0:
        floor = max(floor, weightless_from(highest, by))
        items, spare = word(kept, _ITEMS), word(kept, _SPARE)
        found = best_items(x, width, maxima, highest, by, top_k, floor, items, spare, scratch)
        take_items(kept, x, width, found)
    elif sigmas == 0 and (options[_TYPICAL_P] < 1 or options[_TOP_P] < 1):
        total, center, whole = _take_likely(order, x, width, maxima, highest, floor, kept)
    elif sigmas == 0 and floor == _LOWEST and options[_TOP_A] > 0:
        total, _ = weigh_row(x, width, highest, by, rest)
        floor = logit_of(options[_TOP_A] / total, highest, by)
        take_from(kept, x, width, maxima, floor)
        weigh(kept, floor, highest, by, rest)
    elif floor > _LOWEST:
        take_from(kept, x, width, maxima, floor)
    else:
        take_row(kept, x, width)
    if not total > 0:
        total, distance = weigh(kept, floor, highest, by, rest)
        center, whole = np.float32(highest + distance / total), total
    heaviest = _ONE
    for sharing in range(2):
        share = options[_TYPICAL_P] if sharing == 0 else options[_TOP_P]
        if share < 1:
            values, peaks = word(kept, _VALUES), maxima
            if values != x:
                peaks = word(kept, _MAXIMA)
                note_maxima(values, word(kept, _COUNT), peaks)
            near = center if sharing == 0 else _HIGHEST
            total, heaviest = keep_share(kept, peaks, near, share * total, whole, highest, by, rest, scratch)
            whole = total
    for filtering in range(2):
        strictness = options[_MIN_P] if filtering == 0 else options[_TOP_A]
        if strictness > 0:
            least = strictness * heaviest * (1 if filtering == 0 else heaviest / total)
            total, heaviest = remove_below(
                kept, word(kept, _WEIGHTS), _HIGHEST, np.float32(min(least, heaviest))
            )
    if options[_XTC_PROBABILITY] > 0:
        number = uniform(word(order, _SEED), word(order, _STREAM), word(order, _POSITION), XTC)
        if number < options[_XTC_PROBABILITY]:
            _exclude_top_choices(kept, options[_XTC_THRESHOLD] * total)
            add_up_weights(kept)


@leaf
def _take_likely(
    order: int, x: int, width: int, maxima: int, highest: float, floor: float, kept: int
) -> tuple[float, float, float]:
    """Take and weigh the few best tokens, if they hold all that is left after typical, top-p and what follows; else the row.

    Args:
        order: See `onnxgen.graph.cpu.compiled.draw_orders`.
        x: Address of the logits.
        width: How many there are.
        maxima: Address of each block's maximum.
        highest: The largest of them.
        floor: No token whose logit is less is left by min-p, which follows; or ``-inf``.
        kept: The record.

    Returns:
        The weight of the row; the logit of a token in it that is as surprising as is to be expected; and the weight of what is
        taken.
    """
    by, rest = float_word(order, _BY), float_word(order, _BY_REST)
    options = doubles(order, ORDER_WORDS)
    typical_p, limited = options[_TYPICAL_P], floor > _LOWEST
    low = floor if limited else np.float32(highest - _LIKELY / by)
    if take_from(kept, x, width, maxima, low):
        total, distance = weigh_row(x, width, highest, by, rest)
        center: Any = np.float32(highest + distance / total)
        whole, _ = weigh(kept, low, highest, by, rest)
        near, share = (center, typical_p) if typical_p < 1 else (_HIGHEST, options[_TOP_P])
        if limited or weight_from(kept, near, low) > share * total:
            return total, center, whole
        take_row(kept, x, width)
    total, distance = weigh(kept, _LOWEST, highest, by, rest)
    center = np.float32(highest + distance / total)
    return total, center, total


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
