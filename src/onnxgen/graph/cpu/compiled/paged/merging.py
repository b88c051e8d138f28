"""Putting splits together: each has a maximum, a denominator and sums of its own, and they are added in one order.

state   float32: word 0 the maximum, word 1 the denominator; while a split runs, words 16 to 31 its denominator by lane
sums    float32 [value_dim]
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

STATE_BYTES = 2 * VECTOR_BYTES
DENOMINATOR, LANES_OF_DENOMINATOR = 4, VECTOR_BYTES


def clear_of(value_dim: int) -> Any:
    """``clear(state, sums)``: of nothing."""

    @emitted(NOTHING, PLACE, PLACE)
    def clear(b: Any, state: Any, sums: Any) -> None:
        store(b, F32(LOWEST), state)
        store(b, F32(0.0), at(b, state, DENOMINATOR))
        store(b, every(FLOATS, 0.0), at(b, state, LANES_OF_DENOMINATOR))
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            store(b, every(FLOATS, 0.0), at(b, sums, offset))

    return clear


@emitted(NOTHING, PLACE)
def close(b: Any, state: Any) -> None:
    """``close(state)``: all keys of the split are in it; the lanes of its denominator are added."""
    lanes = load(b, at(b, state, LANES_OF_DENOMINATOR), FLOATS)
    store(b, of_all_lanes(b, lanes, b.fadd), at(b, state, DENOMINATOR))


def _fades(b: Any, isa: Isa, mine: Any, other: Any) -> tuple[Any, Any, Any]:
    """The larger of two maxima, and what remains of sums that were taken relative to each."""
    highest = larger(b, mine, other)
    both = b.insert_element(splat(b, mine, FLOATS), other, I32(1))
    powers = power_of_two(b, isa, b.fsub(both, splat(b, highest, FLOATS)))
    return highest, b.extract_element(powers, I32(0)), b.extract_element(powers, I32(1))


def merge_of(isa: Isa, value_dim: int) -> Any:
    """``merge(state, sums, split_state, split_sums)``: adds a closed split to those before it."""

    @emitted(NOTHING, PLACE, PLACE, PLACE, PLACE)
    def merge(b: Any, state: Any, sums: Any, split_state: Any, split_sums: Any) -> None:
        highest, fade, share = _fades(b, isa, load(b, state, F32), load(b, split_state, F32))
        store(b, highest, state)
        mine, its = (load(b, at(b, each, DENOMINATOR), F32) for each in (state, split_state))
        denominator = b.fadd(b.fmul(mine, fade), b.fmul(its, share))
        store(b, denominator, at(b, state, DENOMINATOR))
        fade, share = splat(b, fade, FLOATS), splat(b, share, FLOATS)
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            added = b.fmul(load(b, at(b, split_sums, offset), FLOATS), share)
            place = at(b, sums, offset)
            store(b, fma(b, isa, load(b, place, FLOATS), fade, added), place)

    return merge


def finish_of(isa: Isa, value_dim: int) -> Any:
    """``finish(state, sums, extra, out)``: the quotient, float32 ``out[value_dim]``.

    ``extra`` is a score, in powers of two, of something that has no value (a sink); `LOWEST` where there is none.
    """

    @emitted(NOTHING, PLACE, PLACE, NUMBER, PLACE)
    def finish(b: Any, state: Any, sums: Any, extra: Any, out: Any) -> None:
        _, fade, power = _fades(b, isa, load(b, state, F32), extra)
        sink = b.select(b.fcmp_ordered("==", extra, F32(LOWEST)), F32(0.0), power)
        denominator = b.fadd(b.fmul(load(b, at(b, state, DENOMINATOR), F32), fade), sink)
        factor = splat(b, b.fdiv(fade, b.fmul(denominator, F32(LARGEST_WEIGHT))), FLOATS)
        for offset in range(0, 4 * value_dim, VECTOR_BYTES):
            store(b, b.fmul(load(b, at(b, sums, offset), FLOATS), factor), at(b, out, offset))

    return finish
