"""Weighted sums of 64 values for some rows, exact within 32 values, then added in float32."""

from __future__ import annotations

from typing import Any

from onnxgen.graph.cpu.compiled.paged.blocking import (
    Blocking,
    addresses,
    at,
    counted,
    for_each_count,
    times,
    zeros,
)
from onnxgen.graph.cpu.compiled.paged.emitting import NOTHING, PLACE, emitted
from onnxgen.graph.cpu.compiled.paged.layout import GROUP_TOKENS
from onnxgen.graph.cpu.compiled.paged.numbers import SUM_KEYS, TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.stored import load_words, stored_bytes
from onnxgen.graph.cpu.compiled.vectors import (
    F32,
    FLOATS,
    I32,
    INTS,
    LANES,
    VECTOR_BYTES,
    WORDS,
    dot_words,
    fma,
    load,
    splat,
    store,
)
from onnxgen.graph.cpu.isa import Isa

WEIGHT_BYTES = 2 * TILE_KEYS
"""One row of weights."""


def values_of(isa: Isa, shape: Blocking, value_dim: int, *, bits: int) -> Any:
    """``values(rows, weights, fades, values, sums)``: ``sums[row] = sums[row] * fades[row] + weights[row] @ values``.

    Args of the function:
        rows: From 1 to ``shape.rows``.
        weights: Address of int16 ``[rows][64]``.
        fades: Address of float32 ``[rows]``.
        values: Address of four addresses, of 16 tokens each: ``[8 pairs][value_dim][2 tokens]``, integers of ``bits``.
        sums: Address of float32 ``[rows][value_dim]``.
    """
    groups_in_sum = SUM_KEYS // GROUP_TOKENS
    pairs, vector_bytes = GROUP_TOKENS // 2, stored_bytes(bits)

    def emit(b: Any, rows: int, weights: Any, fades: Any, groups: list[Any], sums: Any) -> None:
        def integers(first: int, count: int, start: int) -> list[Any]:
            """Sums of the products with ``SUM_KEYS`` values in ``count`` vectors of dimensions from ``first`` on."""
            totals = zeros(rows * count)
            for group in range(start, start + groups_in_sum):

                def dot(pair: Any, totals: list[Any], group: int = group) -> list[Any]:
                    line = at(b, groups[group], times(b, pair, vector_bytes * (value_dim // LANES)))
                    values = [
                        load_words(b, at(b, line, vector_bytes * (first + i)), bits) for i in range(count)
                    ]
                    new: list[Any] = []
                    for row in range(rows):
                        offset = at(b, times(b, pair, 4), WEIGHT_BYTES * row + 2 * GROUP_TOKENS * group)
                        weight = b.bitcast(splat(b, load(b, at(b, weights, offset), I32), INTS), WORDS)
                        mine = totals[row * count : (row + 1) * count]
                        new += [
                            dot_words(b, isa, total, value, weight)
                            for total, value in zip(mine, values, strict=True)
                        ]
                    return new

                totals = counted(b, pairs, totals, dot)
            return totals

        vectors = value_dim // LANES
        for first in range(0, vectors, shape.vectors):
            count = min(shape.vectors, vectors - first)
            for start in range(0, TILE_KEYS // GROUP_TOKENS, groups_in_sum):
                for index, total in enumerate(integers(first, count, start)):
                    row, vector = divmod(index, count)
                    place = at(b, sums, 4 * value_dim * row + VECTOR_BYTES * (first + vector))
                    old, added = load(b, place, FLOATS), b.sitofp(total, FLOATS)
                    if start == 0:
                        fade = splat(b, load(b, at(b, fades, 4 * row), F32), FLOATS)
                        store(b, fma(b, isa, old, fade, added), place)
                    else:
                        store(b, b.fadd(old, added), place)

    @emitted(NOTHING, PLACE, PLACE, PLACE, PLACE, PLACE)
    def add_values(b: Any, count: Any, weights: Any, fades: Any, values: Any, sums: Any) -> None:
        groups = addresses(b, values)
        for_each_count(b, count, shape.rows, lambda rows: emit(b, rows, weights, fades, groups, sums))

    return add_values
