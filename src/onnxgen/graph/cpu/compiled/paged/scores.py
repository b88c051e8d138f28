"""Scores of some rows of queries with 64 keys, as exact integers."""

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
from onnxgen.graph.cpu.compiled.paged.layout import SCALES
from onnxgen.graph.cpu.compiled.paged.numbers import TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.stored import load_words
from onnxgen.graph.cpu.compiled.vectors import (
    FLOATS,
    I32,
    INTS,
    VECTOR_BYTES,
    WORDS,
    dot_words,
    load,
    splat,
    store,
)
from onnxgen.graph.cpu.isa import Isa

SCORE_BYTES = 4 * TILE_KEYS
"""One row of scores."""


def scores_of(isa: Isa, shape: Blocking, head_dim: int, *, bits: int) -> Any:
    """``scores(rows, queries, keys, line_bytes, out)``: int32 ``out[rows][64]``.

    Args of the function:
        rows: From 1 to ``shape.rows``.
        queries: Address of int16 ``[rows][head_dim]``.
        keys: Address of four addresses, of 16 keys each: two dimensions of each key in a line, ``[head_dim / 2][16 keys][2]``,
            integers of ``bits``.
        line_bytes: From one such line to the next.
        out: Address of the scores.
    """

    def emit(b: Any, rows: int, queries: Any, keys: list[Any], line_bytes: Any, out: Any) -> None:
        for first in range(0, len(keys), shape.vectors):
            columns = keys[first : first + shape.vectors]

            def dot(pair: Any, sums: list[Any], columns: list[Any] = columns) -> list[Any]:
                line = b.mul(pair, line_bytes)
                vectors = [load_words(b, at(b, column, line), bits) for column in columns]
                new: list[Any] = []
                for row in range(rows):
                    place = at(b, queries, at(b, times(b, pair, 4), 2 * head_dim * row))
                    query = b.bitcast(splat(b, load(b, place, I32), INTS), WORDS)
                    mine = sums[row * len(vectors) : (row + 1) * len(vectors)]
                    new += [
                        dot_words(b, isa, total, key, query) for total, key in zip(mine, vectors, strict=True)
                    ]
                return new

            sums = counted(b, head_dim // 2, zeros(rows * len(columns)), dot)
            for index, total in enumerate(sums):
                row, column = divmod(index, len(columns))
                store(b, total, at(b, out, SCORE_BYTES * row + VECTOR_BYTES * (first + column)))

    @emitted(NOTHING, PLACE, PLACE, PLACE, PLACE, PLACE)
    def scores(b: Any, count: Any, queries: Any, keys: Any, line_bytes: Any, out: Any) -> None:
        columns = addresses(b, keys)
        for_each_count(b, count, shape.rows, lambda rows: emit(b, rows, queries, columns, line_bytes, out))

    return scores


@emitted(NOTHING, PLACE, PLACE, PLACE)
def gather_scales(b: Any, scales: Any, line_bytes: Any, out: Any) -> None:
    """``gather_scales(scales, line_bytes, out)``: float32 ``out[3][64]``.

    ``scales`` is the address of four addresses, of 16 tokens each: ``[3][16]``, lines that are ``line_bytes`` apart.
    """
    for group, place in enumerate(addresses(b, scales)):
        for kind in range(SCALES):
            values = load(b, at(b, place, times(b, line_bytes, kind)), FLOATS)
            store(b, values, at(b, out, SCORE_BYTES * kind + VECTOR_BYTES * group))
