"""Layer and RMS normalization of rows, of a sum of tensors or of one, each row in the cache from beginning to end."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, inline, lives_until_here, written
from onnxgen.graph.cpu.compiled.lane_floats import fma, load, load_first, splat, store, store_first, sum_of
from onnxgen.graph.cpu.compiled.narrowing import narrow_row
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.widening import FLOAT, kind_bytes, widen_row

_BYTES = 4
_VECTOR_BYTES = _BYTES * LANES
_ZERO, _ONE = np.float32(0), np.float32(1)


@cache
def normalize(element: np.dtype) -> Callable[..., None]:
    """The compiled loop for elements of float32, or for those of 16 bits as uint16.

    ``normalize(x, skip, bias, total, y, kind, weight, offset, means, inverses, epsilon, centered, rounds, rows_each, parts, claims)``

    x         [rows, width] of ``kind`` (see `widening`), as are the next four
    skip      [skip rows, width]: added to x, from the first row again after the last; without rows for none
    bias      [0 or 1, width], added too
    total     [0 or rows, width]: where that sum goes
    y         [rows, width]; perhaps the memory of x or skip
    weight    float32 [0 or width]: 1 without
    offset    float32 [0 or width]: 0 without; not without a weight
    means     float32 [0 or rows]; inverses likewise: 1 / sqrt(variance or mean square + epsilon)
    centered  whether the mean is subtracted
    rounds    whether what is normalized is rounded to ``kind`` before it is multiplied by the weight
    """

    def over_rows(
        x: Any,
        skip: Any,
        bias: Any,
        total: Any,
        y: Any,
        kind: int,
        weight: Any,
        offset: Any,
        means: Any,
        inverses: Any,
        epsilon: Any,
        centered: bool,
        rounds: bool,
        rows_each: int,
        parts: int,
        claims: Any,
    ) -> None:
        rows, width = x.shape
        row_bytes = kind_bytes(kind, width)
        room = (width + LANES - 1) // LANES * LANES
        memory = np.empty(2 * room + 3 * LANES, np.float32)
        row = (address(memory) + _VECTOR_BYTES - 1) // _VECTOR_BYTES * _VECTOR_BYTES
        other, spare = row + _BYTES * room, row + _BYTES * 2 * room
        weights = address(weight) if len(weight) else np.intp(0)
        offsets = address(offset) if len(offset) else np.intp(0)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for r in range(part * rows_each, min(rows, (part + 1) * rows_each)):
                values, target = address(x) + r * row_bytes, address(y) + r * row_bytes
                if kind != FLOAT or len(skip) or len(bias):
                    widen_row(kind, values, width, row, spare)
                    values = row
                    if len(skip):
                        widen_row(kind, address(skip) + r % len(skip) * row_bytes, width, other, spare)
                        _add(row, other, width)
                    if len(bias):
                        widen_row(kind, address(bias), width, other, spare)
                        _add(row, other, width)
                    if len(total):
                        narrow_row(kind, row, width, 0, address(total) + r * row_bytes)
                mean = _total(values, width) / np.float32(width) if centered else _ZERO
                inverse = _ONE / np.sqrt(_squares(values, width, mean) / np.float32(width) + epsilon)
                if len(means):
                    means[r], inverses[r] = mean, inverse
                if kind == FLOAT:
                    _scale(values, width, mean, inverse, weights, offsets, target)
                    continue
                if rounds:
                    _scale(values, width, mean, inverse, 0, 0, row)
                    narrow_row(kind, row, width, 0, other)
                    widen_row(kind, other, width, row, spare)
                    _scale(row, width, _ZERO, _ONE, weights, offsets, row)
                else:
                    _scale(values, width, mean, inverse, weights, offsets, row)
                narrow_row(kind, row, width, 0, target)
        lives_until_here(memory)

    floating = np.dtype(np.float32)
    rows = given(element, 2)
    return compiled(
        over_rows,
        [
            *(rows, rows, rows, written(element, 2), written(element, 2), types.intp),
            *(given(floating, 1), given(floating, 1), written(floating, 1), written(floating, 1)),
            *(types.float32, types.boolean, types.boolean, types.intp, types.intp, written(np.int64, 1)),
        ],
    )


@inline
def _add(row: int, other: int, width: int) -> None:
    """Both rows have memory up to a multiple of `LANES`."""
    for at in range(0, _BYTES * width, _VECTOR_BYTES):
        store(row + at, load(row + at) + load(other + at))


@inline
def _total(row: int, width: int) -> Any:
    a = b = splat(_ZERO)
    whole = width // (2 * LANES) * 2 * LANES
    for at in range(row, row + _BYTES * whole, 2 * _VECTOR_BYTES):
        a = a + load(at)
        b = b + load(at + _VECTOR_BYTES)
    for i in range(whole, width, LANES):
        a = a + load_first(row + _BYTES * i, width - i, _ZERO)
    return sum_of(a + b)


@inline
def _squares(row: int, width: int, mean: Any) -> Any:
    a = b = c = d = splat(_ZERO)
    middle = splat(mean)
    whole = width // (4 * LANES) * 4 * LANES
    for at in range(row, row + _BYTES * whole, 4 * _VECTOR_BYTES):
        p, q = load(at) - middle, load(at + _VECTOR_BYTES) - middle
        r, s = load(at + 2 * _VECTOR_BYTES) - middle, load(at + 3 * _VECTOR_BYTES) - middle
        a, b, c, d = fma(p, p, a), fma(q, q, b), fma(r, r, c), fma(s, s, d)
    for i in range(whole, width, LANES):
        p = load_first(row + _BYTES * i, width - i, mean) - middle
        a = fma(p, p, a)
    return sum_of((a + b) + (c + d))


@inline
def _scale(row: int, width: int, mean: Any, inverse: Any, weight: int, offset: int, target: int) -> None:
    """``(row - mean) * inverse * weight + offset``; the weight is 1 and the offset 0 where they have no address."""
    middle, factor = splat(mean), splat(inverse)
    whole = width // LANES * LANES
    for at in range(0, _BYTES * whole, _VECTOR_BYTES):
        values = (load(row + at) - middle) * factor
        if offset:
            values = fma(values, load(weight + at), load(offset + at))
        elif weight:
            values = values * load(weight + at)
        store(target + at, values)
    if whole < width:
        at, rest = _BYTES * whole, width - whole
        values = (load_first(row + at, rest, _ZERO) - middle) * factor
        if weight:
            values = values * load_first(weight + at, rest, _ZERO)
        if offset:
            values = values + load_first(offset + at, rest, _ZERO)
        store_first(target + at, rest, values)
