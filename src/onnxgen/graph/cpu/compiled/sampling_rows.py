"""Step kernels that choose among the elements of rows: arg-max, top-k; and softmax, which weighs them."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    exact,
    exp_of_negative,
    larger,
    largest_of,
    load,
    load_first,
    log,
    splat,
    store,
    store_first,
    sum_of,
)
from onnxgen.graph.cpu.compiled.lane_keys import NO_KEY, key_of, lanes_above, largest_key, lowest_bit
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST = np.float32(-np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)

StepFunction = Callable[[int, int, int, int, int], None]


def argmax() -> StepFunction:
    """The place of the first of the largest allowed elements of each row, NaN being the largest; -1 where none is allowed.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3, 4    x: float32 rows, floats between them
        5, 6    allowed: a bit for each element in uint32 words, words between rows; address 0 allows all
        7       places: int64 for each row
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            allowed = word(row, 5) + 4 * r * word(row, 6) if word(row, 5) else 0
            place = largest_key(word(row, 3) + 4 * r * word(row, 4), width, allowed)
            ints64(word(row, 7), rows)[r] = place

    return kernel


def top_k() -> StepFunction:
    """The ``k`` largest allowed elements of each row, the largest first; of equal ones those that come first.

    Where fewer are allowed, the rest has the value -infinity and the place -1.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3, 4    x: float32 rows, floats between them
        5, 6    allowed: as for `argmax`
        7       k, from 1 on; 8 k bytes fit in scratch memory
        8, 9    values: float32 [rows, k]; places: int64 [rows, k]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width, k = word(step, word(row, 1)), word(row, 2), word(row, 7)
        heap = ints64(scratch, k)
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            x = word(row, 3) + 4 * r * word(row, 4)
            allowed = word(row, 5) + 4 * r * word(row, 6) if word(row, 5) else 0
            held = _hold_largest(x, width, allowed, heap, k)
            values, places = floats(word(row, 8) + 4 * r * k, k), ints64(word(row, 9) + 8 * r * k, k)
            for i in range(held, k):
                values[i], places[i] = _LOWEST, -1
            for last in range(held - 1, -1, -1):
                place = _PLACES - (heap[0] & _PLACES)
                values[last], places[last] = floats(x, width)[place], place
                item = heap[last]
                _sift_down(heap, last, item)

    return kernel


_PLACES = (1 << 32) - 1


@exact
def _hold_largest(x: int, width: int, allowed: int, heap: Any, k: int) -> int:
    """Fill a heap, its least item on top, with the largest elements; returns how many it holds.

    An item is a key above the bits of a place, counted down from the end, so that of equal elements the first is larger.
    """
    held, threshold = 0, NO_KEY
    for first in range(0, width, LANES):
        above = lanes_above(x, first, width, allowed, threshold)
        while above:
            place = first + lowest_bit(above)
            above &= above - 1
            item = (key_of(floats(x, width)[place]) << 32) | (_PLACES - place)
            if held < k:
                _sift_up(heap, held, item)
                held += 1
            elif item > heap[0]:
                _sift_down(heap, k, item)
        if held == k:
            threshold = heap[0] >> 32
    return held


@exact
def _sift_up(heap: Any, at: int, item: int) -> None:
    """Put an item at the end, and move it up."""
    while at > 0:
        parent = (at - 1) // 2
        if heap[parent] <= item:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = item


@exact
def _sift_down(heap: Any, size: int, item: int) -> None:
    """Put an item in the place of the least, and move it down."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if item <= heap[child]:
            break
        heap[at] = heap[child]
        at = child
    if size > 0:
        heap[at] = item


def softmax(*, logarithm: bool) -> StepFunction:
    """Softmax of each row, or its logarithm; a row with NaN or infinity, or with nothing above -infinity, is all NaN.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3, 4    x: float32 rows, floats between them
        5, 6    y: likewise; may be x
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 2)
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            x = word(row, 3) + 4 * r * word(row, 4)
            y = word(row, 5) + 4 * r * word(row, 6)
            highest = _highest(x, width)
            if logarithm:
                total = _sum_of_powers(x, 0, width, highest)
                _shift(x, y, width, highest, largest_of(log(splat(total))))
            else:
                total = _sum_of_powers(x, y, width, highest)
                _scale(y, width, _ONE / total)

    return kernel


@exact
def _highest(x: int, width: int) -> float:
    """The largest float, NaN passed over."""
    a, b = splat(_LOWEST), splat(_LOWEST)
    i = 0
    while i + 2 * LANES <= width:
        a, b = larger(load(x + 4 * i), a), larger(load(x + 4 * i + 64), b)
        i += 2 * LANES
    while i < width:
        a = larger(load_first(x + 4 * i, width - i, _LOWEST), a)
        i += LANES
    return largest_of(larger(a, b))


@exact
def _sum_of_powers(x: int, y: int, width: int, highest: float) -> float:
    """The sum of ``exp(x - highest)``, whose terms are written to ``y`` unless it is 0."""
    a, b = splat(_ZERO), splat(_ZERO)
    i = 0
    while i + 2 * LANES <= width:
        p = exp_of_negative(load(x + 4 * i) - highest)
        q = exp_of_negative(load(x + 4 * i + 64) - highest)
        if y:
            store(y + 4 * i, p)
            store(y + 4 * i + 64, q)
        a, b = a + p, b + q
        i += 2 * LANES
    while i < width:
        p = exp_of_negative(load_first(x + 4 * i, width - i, _LOWEST) - highest)
        if y:
            store_first(y + 4 * i, width - i, p)
        a += p
        i += LANES
    return sum_of(a + b)


@exact
def _shift(x: int, y: int, width: int, highest: float, logarithm: float) -> None:
    i = 0
    while i + LANES <= width:
        store(y + 4 * i, (load(x + 4 * i) - highest) - logarithm)
        i += LANES
    if i < width:
        store_first(y + 4 * i, width - i, (load_first(x + 4 * i, width - i, _ZERO) - highest) - logarithm)


@exact
def _scale(y: int, width: int, factor: float) -> None:
    i = 0
    while i + LANES <= width:
        store(y + 4 * i, load(y + 4 * i) * factor)
        i += LANES
    if i < width:
        store_first(y + 4 * i, width - i, load_first(y + 4 * i, width - i, _ZERO) * factor)
