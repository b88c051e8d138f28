"""From rows of 64 integer scores to integer weights of the values: a step of an online softmax, in two passes over the rows.

A value is ``2 ** l * whole`` with a scale ``l`` of its own, so what multiplies ``whole`` is the probability times that scale:
``2 ** (score + l)`` with scores in powers of two. A row's running maximum is therefore taken of ``score + l``: no weight is above
1, and weights become integers without a second look for the largest. Any reference is right for a softmax; the denominator adds
the same powers times ``2 ** -l``.

First all rows find their maxima, then all compute their powers: each row is a long chain, and several at once hide it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from onnxgen.graph.cpu.compiled import vector_math
from onnxgen.graph.cpu.compiled.paged.blocking import Blocking, at, for_each_count
from onnxgen.graph.cpu.compiled.paged.emitting import NOTHING, NUMBER, PLACE, emitted
from onnxgen.graph.cpu.compiled.paged.numbers import LARGEST_WEIGHT, LOWEST, TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.power import ROUNDER, power_of_two
from onnxgen.graph.cpu.compiled.paged.scores import SCORE_BYTES
from onnxgen.graph.cpu.compiled.paged.sums import larger, of_all_lanes
from onnxgen.graph.cpu.compiled.vectors import (
    F32,
    FLOATS,
    HALVES,
    I32,
    I64,
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

_VECTORS = range(TILE_KEYS // LANES)
_KEY_SCALES, _VALUE_LOGS, _VALUE_INVERSES = range(3)


def _scales(b: Any, scales: Any, kind: int, vector: int) -> Any:
    return load(b, at(b, scales, VECTOR_BYTES * (len(_VECTORS) * kind + vector)), FLOATS)


def _seen(b: Any, vector: int, end: Any, window: Any) -> Any:
    """Which lanes are among the ``window`` keys before ``end``, both i64."""
    keys = INTS(list(range(LANES * vector, LANES * (vector + 1))))
    first = b.sub(end, window)
    # The tile's first key is 0: a long window begins before it.
    first = b.select(b.icmp_signed("<", first, I64(0)), I64(0), first)
    low, high = (splat(b, b.trunc(limit, I32), INTS) for limit in (first, end))
    return b.and_(b.icmp_signed(">=", keys, low), b.icmp_signed("<", keys, high))


def maxima_of(isa: Isa, shape: Blocking, *, softcap: bool, masked: bool) -> Any:
    """``maxima(rows, scores, factors, cap, scales, maxima, fades, ends, window)``.

    Args of the function:
        rows: From 1 to ``shape.rows``.
        scores: Address of int32 ``[rows][64]``; becomes float32, ``score + l`` of each key.
        factors: Address of float32 ``[rows]``: from integers, times the keys' scales, to powers of two (to parts of ``cap`` with
            a softcap).
        cap: The softcap in powers of two.
        scales: Address of float32 ``[3][64]``: keys' scales, values' log scales, values' inverse scales.
        maxima: Address of float32 ``[rows]``: the running maxima, which rise.
        fades: Address of float32 ``[16]``: what remains of the rows' sums so far.
        ends: Address of int64 ``[rows]``: the key after a row's last, if ``masked``. Keys it does not see leave no trace, whatever
            they hold.
        window: How many keys before its end a row sees, likewise.
    """

    def emit_row(
        b: Any, scores: Any, factor: Any, cap: Any, scales: Any, before: Any, seen: list[Any]
    ) -> Any:
        by_row, highest = splat(b, factor, FLOATS), splat(b, before, FLOATS)
        for vector in _VECTORS:
            place = at(b, scores, VECTOR_BYTES * vector)
            score = b.fmul(b.sitofp(load(b, place, INTS), FLOATS), _scales(b, scales, _KEY_SCALES, vector))
            log = _scales(b, scales, _VALUE_LOGS, vector)
            if softcap:
                bent = vector_math.tanh(b, b.fmul(score, by_row))
                x = fma(b, isa, bent, splat(b, cap, FLOATS), log)
            else:
                x = fma(b, isa, score, by_row, log)
            if masked:
                x = b.select(seen[vector], x, every(FLOATS, LOWEST))
            store(b, x, place)
            highest = larger(b, x, highest)
        return of_all_lanes(b, highest, partial(larger, b))

    @emitted(NOTHING, PLACE, PLACE, PLACE, NUMBER, PLACE, PLACE, PLACE, PLACE, PLACE)
    def maxima(
        b: Any,
        count: Any,
        scores: Any,
        factors: Any,
        cap: Any,
        scales: Any,
        maxima: Any,
        fades: Any,
        ends: Any,
        window: Any,
    ) -> None:
        def emit(rows: int) -> None:
            old = new = every(FLOATS, 0.0)
            for row in range(rows):
                place = at(b, maxima, 4 * row)
                before, factor = (load(b, place, F32), load(b, at(b, factors, 4 * row), F32))
                end = load(b, at(b, ends, 8 * row), I64) if masked else None
                seen = [_seen(b, vector, end, window) for vector in _VECTORS] if masked else []
                mine = at(b, scores, SCORE_BYTES * row)
                highest = emit_row(b, mine, factor, cap, scales, before, seen)
                store(b, highest, place)
                old, new = (b.insert_element(old, before, I32(row)), b.insert_element(new, highest, I32(row)))
            store(b, power_of_two(b, isa, b.fsub(old, new)), fades)

        for_each_count(b, count, shape.rows, emit)

    return maxima


def weigh_of(isa: Isa, *, masked: bool) -> Any:
    """``weigh(scores, maximum, fade, scales, denominator, out, end, window)``: one row.

    Args of the function:
        scores: Address of float32 ``[64]``, as ``maxima`` leaves them.
        maximum: The row's.
        fade: What remains of the sums so far.
        scales: As above.
        denominator: Address of float32 ``[16]``, lanes whose sum it is.
        out: Address of int16 ``[64]``: the weights, from 0 to `LARGEST_WEIGHT`.
        end: The key after the row's last, if ``masked``.
        window: How many keys before it the row sees, likewise.
    """

    @emitted(NOTHING, PLACE, NUMBER, NUMBER, PLACE, PLACE, PLACE, PLACE, PLACE)
    def weigh(
        b: Any,
        scores: Any,
        maximum: Any,
        fade: Any,
        scales: Any,
        denominator: Any,
        out: Any,
        end: Any,
        window: Any,
    ) -> None:
        reference = splat(b, maximum, FLOATS)
        total = b.fmul(load(b, denominator, FLOATS), splat(b, fade, FLOATS))
        for vector in _VECTORS:
            x = load(b, at(b, scores, VECTOR_BYTES * vector), FLOATS)
            power = power_of_two(b, isa, b.fsub(x, reference))
            more = fma(b, isa, power, _scales(b, scales, _VALUE_INVERSES, vector), total)
            whole = fma(b, isa, power, every(FLOATS, LARGEST_WEIGHT), every(FLOATS, ROUNDER))
            whole = b.bitcast(whole, INTS)
            if masked:
                seen = _seen(b, vector, end, window)
                more, whole = (b.select(seen, more, total), b.select(seen, whole, every(INTS, 0)))
            total = more
            store(b, b.trunc(whole, HALVES), at(b, out, VECTOR_BYTES // 2 * vector))
        store(b, total, denominator)

    return weigh
