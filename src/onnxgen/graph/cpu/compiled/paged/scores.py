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
from onnxgen.graph.cpu.compiled.paged.numbers import TILE_KEYS
from onnxgen.graph.cpu.compiled.vectors import I32, INTS, VECTOR_BYTES, WORDS, dot_words, load, splat, store
from onnxgen.graph.cpu.isa import Isa

SCORE_BYTES = 4 * TILE_KEYS
"""One row of scores."""


def scores_of(isa: Isa, shape: Blocking, head_dim: int) -> Any:
    """``scores(rows, queries, tiles, out)``: int32 ``out[rows][64]``.

    Args of the function:
        rows: From 1 to ``shape.rows``.
        queries: Address of int16 ``[rows][head_dim]``.
        tiles: Address of four addresses of keys, 16 each: ``[head_dim / 2][16 keys][2]``.
        out: Address of the scores.
    """

    def emit(b: Any, rows: int, queries: Any, tiles: list[Any], out: Any) -> None:
        for first in range(0, len(tiles), shape.vectors):
            columns = tiles[first : first + shape.vectors]

            def dot(pair: Any, sums: list[Any], columns: list[Any] = columns) -> list[Any]:
                keys = [load(b, at(b, tile, times(b, pair, VECTOR_BYTES)), WORDS) for tile in columns]
                new: list[Any] = []
                for row in range(rows):
                    place = at(b, queries, at(b, times(b, pair, 4), 2 * head_dim * row))
                    query = b.bitcast(splat(b, load(b, place, I32), INTS), WORDS)
                    mine = sums[row * len(keys) : (row + 1) * len(keys)]
                    new += [
                        dot_words(b, isa, total, key, query) for total, key in zip(mine, keys, strict=True)
                    ]
                return new

            sums = counted(b, head_dim // 2, zeros(rows * len(columns)), dot)
            for index, total in enumerate(sums):
                row, column = divmod(index, len(columns))
                store(b, total, at(b, out, SCORE_BYTES * row + VECTOR_BYTES * (first + column)))

    @emitted(NOTHING, PLACE, PLACE, PLACE, PLACE)
    def scores(b: Any, count: Any, queries: Any, places: Any, out: Any) -> None:
        tiles = addresses(b, places)
        for_each_count(b, count, shape.rows, lambda rows: emit(b, rows, queries, tiles, out))

    return scores
