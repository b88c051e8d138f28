"""Softmax and normalization of rows: each row passes through the cache once."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.function import REASSOCIATED, address, compiled, given, inline, written
from onnxgen.graph.cpu.compiled.functions import exp
from onnxgen.graph.cpu.compiled.primitives import I64, claim

_FLOAT = np.dtype(np.float32)

_PIECE = 1024
"""Elements that are computed before they are written, so that loops run in vectors where both are one memory."""


_LANES = 32
"""Of the vectors in which the largest element is looked for: two or more registers, to hide the latency."""


@inline
def largest(row: Any) -> Any:
    """The largest element; anything where one is NaN, whose own exponential is NaN whatever is subtracted."""
    vectors = row.size // _LANES
    found = largest_of_vectors(address(row), vectors) if vectors else row[0]
    for i in range(vectors * _LANES, row.size):
        found = max(found, row[i])
    return found


def _largest_of_vectors(_context: Any, start: Any, count: Any) -> Any:
    vector = ir.VectorType(ir.FloatType(), _LANES)

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        start, count = arguments
        before, loop, done = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        step, found = builder.phi(I64), builder.phi(vector)
        place = builder.add(start, builder.mul(step, I64(4 * _LANES)))
        new = builder.load(builder.inttoptr(place, vector.as_pointer()), align=4)
        larger = builder.select(builder.fcmp_ordered(">", new, found), new, found)
        following = builder.add(step, I64(1))
        for phi, first, later in (
            (step, I64(0), following),
            (found, ir.Constant(vector, [-math.inf] * _LANES), larger),
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
        builder.position_at_end(done)
        reduce = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.FloatType(), [vector]), f"llvm.vector.reduce.fmax.v{_LANES}f32"
        )
        return builder.call(reduce, [larger])

    return types.float32(types.intp, types.intp), generate


largest_of_vectors: Any = intrinsic(_largest_of_vectors)
"""The largest of one or more vectors of float32 at an address."""


@cache
def softmax(*, logarithm: bool) -> Callable[..., None]:
    """``softmax(x, y, rows_each, parts, claims)``: float32 ``[rows, size]`` both, which may be the same memory."""

    def over_rows(x: Any, y: Any, rows_each: int, parts: int, claims: Any) -> None:
        size = x.shape[1]
        powers = np.empty(size, np.float32)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for r in range(part * rows_each, min(len(x), (part + 1) * rows_each)):
                row, target = x[r], y[r]
                highest = largest(row)
                if logarithm:
                    for i in range(size):
                        powers[i] = row[i] - highest
                    total = np.float32(0)
                    for i in range(size):
                        total += exp(powers[i])
                    shift = np.float32(math.log(total))
                    for i in range(size):
                        target[i] = powers[i] - shift
                else:
                    for i in range(size):
                        powers[i] = exp(row[i] - highest)
                    total = np.float32(0)
                    for i in range(size):
                        total += powers[i]
                    factor = np.float32(1) / total
                    for i in range(size):
                        target[i] = powers[i] * factor

    return compiled(
        over_rows,
        [given(_FLOAT, 2), written(_FLOAT, 2), types.intp, types.intp, written(np.int64, 1)],
        fastmath=REASSOCIATED,
    )


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
