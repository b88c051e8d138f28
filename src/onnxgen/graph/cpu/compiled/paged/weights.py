"""From a row of 64 integer scores to integer weights of its values: one step of an online softmax.

A value is ``2 ** l * whole`` with a scale ``l`` of its own, so what multiplies ``whole`` is the probability times that scale:
``2 ** (score + l)`` with scores in powers of two. The row's running maximum is therefore taken of ``score + l``: the largest
weight is 1 by construction, and becomes an integer without a second look for the largest. Any reference is right for a softmax;
the denominator adds the same powers times ``2 ** -l``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from onnxgen.graph.cpu.compiled import vector_math
from onnxgen.graph.cpu.compiled.paged.blocking import at
from onnxgen.graph.cpu.compiled.paged.emitting import NUMBER, PLACE, emitted
from onnxgen.graph.cpu.compiled.paged.numbers import LARGEST_WEIGHT, LOWEST, TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.power import ROUNDER, power_of_two
from onnxgen.graph.cpu.compiled.paged.sums import larger, of_all_lanes
from onnxgen.graph.cpu.compiled.vectors import (
    F32,
    FLOATS,
    HALVES,
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

_VECTORS = range(TILE_KEYS // LANES)


def weights_of(isa: Isa, *, softcap: bool, masked: bool) -> Any:
    """``weigh(scores, scale, cap, scales, state, out, first, last)``: the fade of the sums before, float32.

    Args of the function:
        scores: Address of int32 ``[64]``.
        scale: float32: from integers, times the keys' scales, to powers of two (to parts of ``cap`` with a softcap).
        cap: The softcap in powers of two.
        scales: Address of float32 ``[3][64]``: keys' scales, values' log scales, values' inverse scales.
        state: Address of float32 ``[1 + 15 unused + 16]``: the running maximum, and sums of the denominator by lane.
        out: Address of int16 ``[64]``: the weights, from 0 to `LARGEST_WEIGHT`.
        first: First key that the row sees, if ``masked``; others leave no trace, whatever they hold.
        last: The key after its last.
    """

    @emitted(NUMBER, PLACE, NUMBER, NUMBER, PLACE, PLACE, PLACE, PLACE, PLACE)
    def weigh(
        b: Any, scores: Any, scale: Any, cap: Any, scales: Any, state: Any, out: Any, first: Any, last: Any
    ) -> Any:
        def scales_at(kind: int, vector: int) -> Any:
            return load(b, at(b, scales, VECTOR_BYTES * (len(_VECTORS) * kind + vector)), FLOATS)

        by_row = splat(b, scale, FLOATS)
        x: list[Any] = []
        for v in _VECTORS:
            score = b.sitofp(load(b, at(b, scores, VECTOR_BYTES * v), INTS), FLOATS)
            score = b.fmul(score, scales_at(0, v))
            if softcap:
                bent = vector_math.tanh(b, b.fmul(score, by_row))
                x.append(fma(b, isa, bent, splat(b, cap, FLOATS), scales_at(1, v)))
            else:
                x.append(fma(b, isa, score, by_row, scales_at(1, v)))
        seen: list[Any] = []
        if masked:
            low, high = (splat(b, b.trunc(end, I32), INTS) for end in (first, last))
            for v in _VECTORS:
                keys = INTS(list(range(LANES * v, LANES * (v + 1))))
                seen.append(b.and_(b.icmp_signed(">=", keys, low), b.icmp_signed("<", keys, high)))
            x = [b.select(see, each, every(FLOATS, LOWEST)) for see, each in zip(seen, x, strict=True)]

        old = load(b, state, F32)
        highest = of_all_lanes(b, larger(b, larger(b, x[0], x[1]), larger(b, x[2], x[3])), partial(larger, b))
        highest = larger(b, highest, old)
        store(b, highest, state)
        # 2 ** 0 is 1 exactly, and most rows keep their maximum in most tiles.
        before = b.block
        with b.if_then(b.fcmp_unordered("!=", highest, old), likely=False):
            fallen = b.extract_element(power_of_two(b, isa, splat(b, b.fsub(old, highest), FLOATS)), I32(0))
            place = at(b, state, VECTOR_BYTES)
            store(b, b.fmul(load(b, place, FLOATS), splat(b, fallen, FLOATS)), place)
            changed = b.block
        fade = b.phi(F32)
        fade.add_incoming(F32(1.0), before)
        fade.add_incoming(fallen, changed)

        reference = splat(b, highest, FLOATS)
        total = load(b, at(b, state, VECTOR_BYTES), FLOATS)
        for v in _VECTORS:
            power = power_of_two(b, isa, b.fsub(x[v], reference))
            sum_with = fma(b, isa, power, scales_at(2, v), total)
            whole = b.bitcast(fma(b, isa, power, every(FLOATS, LARGEST_WEIGHT), every(FLOATS, ROUNDER)), INTS)
            if masked:
                sum_with = b.select(seen[v], sum_with, total)
                whole = b.select(seen[v], whole, every(INTS, 0))
            total = sum_with
            store(b, b.trunc(whole, HALVES), at(b, out, VECTOR_BYTES // 2 * v))
        store(b, total, at(b, state, VECTOR_BYTES))
        return fade

    return weigh


assert math.log2(LARGEST_WEIGHT) < 22, "a rounded weight must fit the low bits of ROUNDER"
