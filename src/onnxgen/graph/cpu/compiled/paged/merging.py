"""Putting splits together: each has a maximum, a denominator and sums of its own, and they are added in one order.

record   float32 [value_dim] sums | maximum | denominator | unused to the end of the cache line
"""

from __future__ import annotations

from typing import Any

from onnxgen.graph.cpu.compiled.paged.blocking import at
from onnxgen.graph.cpu.compiled.paged.emitting import NOTHING, NUMBER, PLACE, emitted
from onnxgen.graph.cpu.compiled.paged.numbers import LARGEST_WEIGHT, LOWEST
from onnxgen.graph.cpu.compiled.paged.power import power_of_two
from onnxgen.graph.cpu.compiled.paged.sums import larger, of_all_lanes
from onnxgen.graph.cpu.compiled.vectors import F32, FLOATS, I32, VECTOR_BYTES, every, fma, load, splat, store
from onnxgen.graph.cpu.isa import Isa

STATE_BYTES = VECTOR_BYTES


def record_bytes(value_dim: int) -> int:
    """One row's record."""
    return 4 * value_dim + STATE_BYTES


def clear_of(value_dim: int) -> Any:
    """``clear(sums)``: float32 ``sums[value_dim]`` become 0."""

    @emitted(NOTHING, PLACE)
    def clear(b: Any, sums: Any) -> None:
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            store(b, every(FLOATS, 0.0), at(b, sums, offset))

    return clear


@emitted(NUMBER, PLACE)
def total(b: Any, lanes: Any) -> Any:
    """``total(lanes)``: the sum of float32 ``[16]``."""
    return of_all_lanes(b, load(b, lanes, FLOATS), b.fadd)


def _fades(b: Any, isa: Isa, mine: Any, other: Any) -> tuple[Any, Any, Any]:
    """The larger of two maxima, and what remains of sums that were taken relative to each."""
    highest = larger(b, mine, other)
    both = b.insert_element(splat(b, mine, FLOATS), other, I32(1))
    powers = power_of_two(b, isa, b.fsub(both, splat(b, highest, FLOATS)))
    return highest, b.extract_element(powers, I32(0)), b.extract_element(powers, I32(1))


def merge_of(isa: Isa, value_dim: int) -> Any:
    """``merge(record, maximum, denominator, sums)``: adds a split to those before it."""

    @emitted(NOTHING, PLACE, NUMBER, NUMBER, PLACE)
    def merge(b: Any, record: Any, maximum: Any, denominator: Any, sums: Any) -> None:
        maximum_at, denominator_at = (at(b, record, 4 * (value_dim + index)) for index in range(2))
        highest, fade, share = _fades(b, isa, load(b, maximum_at, F32), maximum)
        store(b, highest, maximum_at)
        mine = b.fmul(load(b, denominator_at, F32), fade)
        store(b, b.fadd(mine, b.fmul(denominator, share)), denominator_at)
        fade, share = splat(b, fade, FLOATS), splat(b, share, FLOATS)
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            added = b.fmul(load(b, at(b, sums, offset), FLOATS), share)
            place = at(b, record, offset)
            store(b, fma(b, isa, load(b, place, FLOATS), fade, added), place)

    return merge


def finish_of(isa: Isa, value_dim: int) -> Any:
    """``finish(record, extra, out)``: the quotient, float32 ``out[value_dim]``.

    ``extra`` is a score, in powers of two, of something that has no value (a sink); `LOWEST` where there is none.
    """

    @emitted(NOTHING, PLACE, NUMBER, PLACE)
    def finish(b: Any, record: Any, extra: Any, out: Any) -> None:
        maximum, denominator = (load(b, at(b, record, 4 * (value_dim + index)), F32) for index in range(2))
        _, fade, power = _fades(b, isa, maximum, extra)
        sink = b.select(b.fcmp_ordered("==", extra, F32(LOWEST)), F32(0.0), power)
        denominator = b.fadd(b.fmul(denominator, fade), sink)
        factor = splat(b, b.fdiv(fade, b.fmul(denominator, F32(LARGEST_WEIGHT))), FLOATS)
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            store(b, b.fmul(load(b, at(b, record, offset), FLOATS), factor), at(b, out, offset))

    return finish
