"""Normalization of rows: each row passes through the cache once."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import REASSOCIATED, address, compiled, given, written
from onnxgen.graph.cpu.compiled.primitives import claim

_PIECE = 1024
"""Elements that are computed before they are written, so that loops run in vectors where both are one memory."""


@cache
def normalize(dtype: np.dtype, *, centered: bool) -> Callable[..., None]:
    """The compiled loop of rows for float32 or float64.

    ``normalize(x, scale, bias, epsilon, y, means, inverses, rows_each, parts, claims)``

        x         [rows, size]
        scale     [periods, channels]: of row r those at r % periods, each for size / channels neighbours
        bias      likewise
        y         [rows, size], perhaps the memory of x
        means     [rows]
        inverses  [rows]: 1 / sqrt(variance or mean square + epsilon)
    """

    def over_rows(
        x: Any,
        scale: Any,
        bias: Any,
        epsilon: Any,
        y: Any,
        means: Any,
        inverses: Any,
        rows_each: int,
        parts: int,
        claims: Any,
    ) -> None:
        size, (periods, channels) = x.shape[1], scale.shape
        spread = np.empty(size, x.dtype)
        count = x.dtype.type(size)
        one = x.dtype.type(1)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for r in range(part * rows_each, min(len(x), (part + 1) * rows_each)):
                row, target = x[r], y[r]
                mean = total(row) / count
                means[r] = mean
                if centered:
                    for i in range(size):
                        spread[i] = row[i] - mean
                else:
                    for i in range(size):
                        spread[i] = row[i]
                inverse = one / np.sqrt(squares(spread) / count + epsilon)
                inverses[r] = inverse
                scales, biases = scale[r % periods], bias[r % periods]
                if channels == size:
                    for i in range(size):
                        target[i] = spread[i] * inverse * scales[i] + biases[i]
                    continue
                inner = size // channels
                for channel in range(channels):
                    factor, shift = inverse * scales[channel], biases[channel]
                    source = spread[channel * inner : (channel + 1) * inner]
                    result = target[channel * inner : (channel + 1) * inner]
                    for i in range(inner):
                        result[i] = source[i] * factor + shift

    matrix, vector = given(dtype, 2), written(dtype, 1)
    scalar = numba.from_dtype(dtype)
    return compiled(
        over_rows,
        [
            *(matrix, matrix, matrix, scalar, written(dtype, 2), vector, vector),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
        fastmath=REASSOCIATED,
    )


@cache
def affine(dtype: np.dtype) -> Callable[..., None]:
    """``affine(x, factors, offsets, y, rows_each, parts, claims)``: rows times a number, plus another.

    ``x [rows, size]`` and ``y``, perhaps the same memory, are of that type, and ``factors [periods]`` and ``offsets``,
    of which row ``r`` takes those at ``r % periods``.
    """

    def over_rows(
        x: Any, factors: Any, offsets: Any, y: Any, rows_each: int, parts: int, claims: Any
    ) -> None:
        piece = np.empty(_PIECE, x.dtype)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for r in range(part * rows_each, min(len(x), (part + 1) * rows_each)):
                factor, offset = factors[r % factors.size], offsets[r % factors.size]
                for start in range(0, x.shape[1], _PIECE):
                    source, target = x[r, start : start + _PIECE], y[r, start : start + _PIECE]
                    for i in range(source.size):
                        piece[i] = source[i] * factor + offset
                    for i in range(target.size):
                        target[i] = piece[i]

    return compiled(
        over_rows,
        [
            *(given(dtype, 2), given(dtype, 1), given(dtype, 1), written(dtype, 2)),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
    )


@numba.njit(nogil=True, fastmath=set(REASSOCIATED))
def total(row: Any) -> Any:
    """The sum, in vector registers."""
    result = row[0] * 0
    for i in range(row.size):
        result += row[i]
    return result


@numba.njit(nogil=True, fastmath=set(REASSOCIATED))
def squares(row: Any) -> Any:
    """The sum of squares, in vector registers."""
    result = row[0] * 0
    for i in range(row.size):
        result += row[i] * row[i]
    return result
