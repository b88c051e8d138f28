"""Rows of float32 to rows of integers: what their scale follows from, and the rounding."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from onnxgen.graph.cpu.compiled.paged.blocking import at
from onnxgen.graph.cpu.compiled.paged.emitting import NOTHING, NUMBER, PLACE, emitted
from onnxgen.graph.cpu.compiled.paged.power import ROUNDER, power_of_two
from onnxgen.graph.cpu.compiled.paged.sums import of_all_lanes
from onnxgen.graph.cpu.compiled.vectors import (
    F32,
    FLOATS,
    HALVES,
    I8,
    I32,
    INTS,
    LANES,
    VECTOR_BYTES,
    every,
    fma,
    load,
    splat,
    store,
)
from onnxgen.graph.cpu.isa import Isa


def squares_of(isa: Isa, width: int) -> Any:
    """``squares(row, factor)``: the sum of the squares of ``row * factor``."""

    @emitted(NUMBER, PLACE, NUMBER)
    def squares(b: Any, row: Any, factor: Any) -> Any:
        in_all, total = splat(b, factor, FLOATS), every(FLOATS, 0.0)
        for offset in range(0, 4 * width, VECTOR_BYTES):
            x = b.fmul(load(b, at(b, row, offset), FLOATS), in_all)
            total = fma(b, isa, x, x, total)
        return of_all_lanes(b, total, b.fadd)

    return squares


def largest_of(width: int) -> Any:
    """``largest(row)``: the largest size of an element; not finite where one is not."""

    @emitted(NUMBER, PLACE)
    def largest(b: Any, row: Any) -> Any:
        # As integers, sizes compare as they do as floats, and NaN is above infinity.
        def larger(x: Any, y: Any) -> Any:
            return b.select(b.icmp_signed(">", x, y), x, y)

        highest = every(INTS, 0)
        for offset in range(0, 4 * width, VECTOR_BYTES):
            size = b.and_(load(b, at(b, row, offset), INTS), every(INTS, 0x7FFFFFFF))
            highest = larger(size, highest)
        return b.bitcast(of_all_lanes(b, highest, larger), F32)

    return largest


def to_integers_of(width: int, bits: int) -> Any:
    """``to_integers(row, factor, out)``: integers of 16 or 8 ``bits``, ``out[width]``.

    They are the nearest to ``row * factor``, which must be in reach.
    """
    numbers = HALVES if bits == 16 else ir.VectorType(I8, LANES)

    @emitted(NOTHING, PLACE, NUMBER, PLACE)
    def to_integers(b: Any, row: Any, factor: Any, out: Any) -> None:
        for offset in range(0, 4 * width, VECTOR_BYTES):
            x = b.fmul(load(b, at(b, row, offset), FLOATS), splat(b, factor, FLOATS))
            whole = b.bitcast(b.fadd(x, every(FLOATS, ROUNDER)), INTS)
            store(b, b.trunc(whole, numbers), at(b, out, offset * bits // 32))

    return to_integers


def copy_of(width: int) -> Any:
    """``copy(row, out)``: float32 ``out[width]``."""

    @emitted(NOTHING, PLACE, PLACE)
    def copy(b: Any, row: Any, out: Any) -> None:
        for offset in range(0, 4 * width, VECTOR_BYTES):
            store(b, load(b, at(b, row, offset), FLOATS), at(b, out, offset))

    return copy


def weighted_of(width: int) -> Any:
    """``weighted(row, factor, weights, out)``: float32 ``out[width]``, ``row * factor * weights``."""

    @emitted(NOTHING, PLACE, NUMBER, PLACE, PLACE)
    def weighted(b: Any, row: Any, factor: Any, weights: Any, out: Any) -> None:
        in_all = splat(b, factor, FLOATS)
        for offset in range(0, 4 * width, VECTOR_BYTES):
            x, weight = (load(b, at(b, base, offset), FLOATS) for base in (row, weights))
            store(b, b.fmul(b.fmul(x, in_all), weight), at(b, out, offset))

    return weighted


def mixed_of(width: int, dims: int) -> Any:
    """``mix(row)``: float32 ``row[width]``, each ``dims`` neighbours times a Hadamard matrix, in place.

    ``dims`` is a power of two that divides ``width``: 1, which changes nothing, or at least a vector.
    """

    def within(b: Any, x: Any, distance: int) -> Any:
        partners = b.shuffle_vector(x, x, INTS([lane ^ distance for lane in range(LANES)]))
        signs = FLOATS([-1.0 if lane & distance else 1.0 for lane in range(LANES)])
        return b.fadd(partners, b.fmul(x, signs))

    @emitted(NOTHING, PLACE)
    def mix(b: Any, row: Any) -> None:
        if dims == 1:
            return
        places = [at(b, row, offset) for offset in range(0, 4 * width, VECTOR_BYTES)]
        x = [load(b, place, FLOATS) for place in places]
        for distance in (1, 2, 4, 8):
            x = [within(b, vector, distance) for vector in x]
        distance = 1
        while distance * LANES < dims:
            x = [
                b.fsub(x[i - distance], x[i]) if i & distance else b.fadd(x[i], x[i + distance])
                for i in range(len(x))
            ]
            distance *= 2
        for vector, place in zip(x, places, strict=True):
            store(b, vector, place)

    return mix


def exponential_of(isa: Isa) -> Any:
    """``exponential(x)``: ``2 ** x``, as weights compute it."""

    @emitted(NUMBER, NUMBER)
    def exponential(b: Any, x: Any) -> Any:
        return b.extract_element(power_of_two(b, isa, splat(b, x, FLOATS)), I32(0))

    return exponential


@emitted(types.int32, NUMBER)
def bits_of(b: Any, x: Any) -> Any:
    """A float32 as an int32."""
    return b.bitcast(x, I32)


@emitted(NUMBER, NUMBER)
def root(b: Any, x: Any) -> Any:
    """The square root, as one instruction."""
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(F32, [F32]), "llvm.sqrt.f32")
    return b.call(function, [x])
