"""Candidates of a row of logits: found by a range of logits, sorted from the best downwards, their weights added up.

A candidate is an item, an int64: smaller for a larger logit and, of equal ones, for the lower id, which is in its low half.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import floats, ints32, ints64
from onnxgen.graph.cpu.compiled.lane_floats import exact, load, load_first, store
from onnxgen.graph.cpu.compiled.lane_keys import lanes_within, lowest_bit
from onnxgen.graph.cpu.compiled.token_weights import weights
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_SIGN, _POSITIVE = -(1 << 31), (1 << 31) - 1
_FEW = 32
_DIGITS, _DIGIT_BITS, _WORD_BITS = 256, 8, 64


@leaf
def collect(x: int, width: int, maxima: int, low: float, high: float, items: int) -> int:
    """Write an item for each float from ``low`` on and below ``high``, by place; returns how many there are."""
    blocks, found = (width + BLOCK - 1) // BLOCK, 0
    into = ints64(items, width)
    for block in range(blocks):
        if floats(maxima, blocks)[block] < low:
            continue
        i, end = block * BLOCK, min(width, (block + 1) * BLOCK)
        while i < end:
            if i + LANES <= end:
                within = lanes_within(load(x + 4 * i), low, high)
            else:
                within = lanes_within(load_first(x + 4 * i, end - i, _HIGHEST), low, high)
            while within:
                into[found] = item_of(x, i + lowest_bit(within))
                found += 1
                within &= within - 1
            i += LANES
    return found


@exact
def item_of(x: int, place: int) -> int:
    """An integer that is smaller for a larger float at ``place``, and of equal floats for the first; the place is in its low half."""
    bits: Any = np.int64(ints32(x, place + 1)[place])
    if bits == _SIGN:
        bits = 0  # -0 equals 0
    key = bits if bits >= 0 else bits ^ _POSITIVE
    return (~key << 32) | place


@leaf
def add_up(
    x: int,
    width: int,
    highest: float,
    by: float,
    rest: float,
    items: int,
    done: int,
    found: int,
    sums: Any,
    scratch: int,
    before: float,
) -> None:
    """The running sum of weights over the ``found`` items after ``done`` others, which weigh ``before`` together."""
    row, own, buffer = floats(x, width), ints64(items, width), floats(scratch, LANES)
    mass = before
    for first in range(done, done + found, LANES):
        count = min(LANES, done + found - first)
        for i in range(LANES):
            buffer[i] = row[own[first + i] & ITEM_PLACES] if i < count else _LOWEST
        store(scratch, weights(load(scratch), highest, by, rest))
        for i in range(count):
            mass += np.float64(buffer[i])
            sums[first + i] = mass


@leaf
def first_from(sums: Any, size: int, goal: float) -> int:
    """The first place whose running sum is at least ``goal``; ``size`` if none is."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if sums[middle] >= goal:
            high = middle
        else:
            low = middle + 1
    return low


@leaf
def first_beyond(sums: Any, size: int, goal: float) -> int:
    """The first place whose running sum is more than ``goal``; ``size`` if none is."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@leaf
def sort(items: int, count: int, spare: int, scratch: int) -> None:
    """Sort items, which are in the order of their places: few by insertion, many by the digits of their upper half."""
    if count <= _FEW:
        own = ints64(items, count)
        for i in range(1, count):
            item, at = own[i], i
            while at > 0 and own[at - 1] > item:
                own[at] = own[at - 1]
                at -= 1
            own[at] = item
        return
    source, target = items, spare
    for shift in range(32, _WORD_BITS, _DIGIT_BITS):
        if _scatter(source, target, count, shift, scratch):
            source, target = target, source
    if source != items:
        for i in range(count):
            ints64(items, count)[i] = ints64(source, count)[i]


@leaf
def _scatter(source: int, target: int, count: int, shift: int, scratch: int) -> bool:
    """Sort by one digit, keeping the order of equal ones; returns whether there was anything to do."""
    old, new, starts = ints64(source, count), ints64(target, count), ints64(scratch, _DIGITS)
    flipped = _DIGITS // 2 if shift + _DIGIT_BITS == _WORD_BITS else 0  # the sign's digit
    for digit in range(_DIGITS):
        starts[digit] = 0
    for i in range(count):
        starts[((old[i] >> shift) & (_DIGITS - 1)) ^ flipped] += 1
    if starts[((old[0] >> shift) & (_DIGITS - 1)) ^ flipped] == count:
        return False
    start = 0
    for digit in range(_DIGITS):
        here = starts[digit]
        starts[digit] = start
        start += here
    for i in range(count):
        digit = ((old[i] >> shift) & (_DIGITS - 1)) ^ flipped
        new[starts[digit]] = old[i]
        starts[digit] += 1
    return True
