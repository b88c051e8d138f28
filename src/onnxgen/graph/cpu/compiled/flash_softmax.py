"""Online softmax: scores of a block of keys become weights, and what was summed so far is brought to the same scale."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled import functions
from onnxgen.graph.cpu.compiled.flash_cache import reach
from onnxgen.graph.cpu.compiled.flash_records import KEY_BLOCK
from onnxgen.graph.cpu.compiled.function import inline, leaf
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats
from onnxgen.graph.cpu.compiled.lane_bytes import where_set, within
from onnxgen.graph.cpu.compiled.lane_floats import (
    exp_of_negative,
    larger,
    largest_of,
    load,
    splat,
    store,
    sum_of,
    tanh,
)
from onnxgen.graph.cpu.compiled.vector_math import LANES

_BYTES = 4
_VECTOR_BYTES = _BYTES * LANES
_LOWEST = np.float32(-np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)


@leaf
def absorb(
    scores: int,
    rows: int,
    keys: int,
    start: int,
    horizon: int,
    first_row: int,
    head: int,
    sequence: Any,
    same: Any,
    peaks: Any,
    sums: Any,
    output: int,
    value_width: int,
) -> None:
    """Scores ``[rows, KEY_BLOCK]`` of keys from ``start`` on become weights.

    Args:
        scores: Their address; ``keys`` of a row are meant, those up to a multiple of `LANES` may be written.
        rows: How many.
        keys: How many.
        start: The first key.
        horizon: How many of these and later keys the first query of the sequence may see.
        first_row: The first row, among those of the sequence.
        head: The key head.
        sequence: See `flash_records`.
        same: Likewise.
        peaks: The largest score of each row so far.
        sums: The sum of exponentials of each row so far.
        output: Values weighted so far, ``[rows, value_width]``.
        value_width: A multiple of `LANES`.
    """
    group = same.heads // same.kv_heads
    for r in range(rows):
        seen = reach(r, horizon, first_row, group, keys)
        if not seen:
            continue
        at = scores + _BYTES * r * KEY_BLOCK
        query, query_head = (first_row + r) // group, head * group + (first_row + r) % group
        if same.softcap > _ZERO:
            _cap(at, seen, same.softcap)
        if sequence.bias:
            _add(
                at,
                seen,
                sequence.bias + query * sequence.bias_row + query_head * sequence.bias_head + _BYTES * start,
            )
        if sequence.mask:
            _hide(
                at, seen, sequence.mask + query * sequence.mask_row + query_head * sequence.mask_head + start
            )
        position = sequence.first_position + query
        low, high = position - same.left - start, min(seen, position + same.right + 1 - start)
        peak = _peak(at, seen, low, high, peaks[r])
        # Before any key was seen there is nothing to subtract, and every exponential is 0.
        summed = _exponentials(at, seen, _ZERO if peak == _LOWEST else peak)
        if peak != peaks[r]:
            factor = functions.exp(peaks[r] - peak)
            scale_row(output + _BYTES * r * value_width, value_width, factor)
            sums[r] *= factor
            peaks[r] = peak
        sums[r] += summed


@inline
def scale_row(at: int, width: int, factor: Any) -> None:
    """Multiply ``width`` numbers, a multiple of `LANES`."""
    factors = splat(factor)
    for place in range(at, at + _BYTES * width, _VECTOR_BYTES):
        store(place, load(place) * factors)


@inline
def _cap(at: int, keys: int, cap: Any) -> None:
    limit, inverse = splat(cap), splat(_ONE / cap)
    for place in range(at, at + _BYTES * keys, _VECTOR_BYTES):
        store(place, limit * tanh(load(place) * inverse))


@inline
def _add(at: int, keys: int, bias: int) -> None:
    whole = keys // LANES * LANES
    for i in range(0, _BYTES * whole, _VECTOR_BYTES):
        store(at + i, load(at + i) + load(bias + i))
    scores, terms = floats(at, keys), floats(bias, keys)
    for i in range(whole, keys):
        scores[i] += terms[i]


@inline
def _hide(at: int, keys: int, mask: int) -> None:
    whole = keys // LANES * LANES
    for i in range(0, whole, LANES):
        store(at + _BYTES * i, where_set(load(at + _BYTES * i), mask + i))
    scores, seen = floats(at, keys), bytes8(mask, keys)
    for i in range(whole, keys):
        if not seen[i]:
            scores[i] = _LOWEST


@inline
def _peak(at: int, keys: int, low: int, high: int, old: Any) -> Any:
    """The largest of a number and scores in ``[low, high)``; others are hidden from now on."""
    found = splat(old)
    if low <= 0 and high == keys and keys % LANES == 0:
        for place in range(at, at + _BYTES * keys, _VECTOR_BYTES):
            found = larger(load(place), found)
        return largest_of(found)
    for i in range(0, keys, LANES):
        seen = within(load(at + _BYTES * i), low - i, high - i)
        store(at + _BYTES * i, seen)
        found = larger(seen, found)
    return largest_of(found)


@inline
def _exponentials(at: int, keys: int, shift: Any) -> Any:
    """Scores less a number become their exponentials, which are summed."""
    shifts, summed = splat(shift), splat(_ZERO)
    for place in range(at, at + _BYTES * keys, _VECTOR_BYTES):
        weights = exp_of_negative(load(place) - shifts)
        store(place, weights)
        summed = summed + weights
    return sum_of(summed)
