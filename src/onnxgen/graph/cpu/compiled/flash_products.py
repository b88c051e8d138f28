"""The products of attention: queries with keys, weights with values; few rows and many.

All matrices are float32 at addresses. Scores are ``[rows, KEY_BLOCK]``.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from onnxgen.graph.cpu.compiled.attention_tiles import dots, strided_tile, transpose
from onnxgen.graph.cpu.compiled.flash_cache import reach
from onnxgen.graph.cpu.compiled.flash_records import KEY_BLOCK
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.tile import TileShape, tile_shape
from onnxgen.graph.cpu.compiled.vector_math import LANES

_BYTES = 4
_SCORES_ROW = _BYTES * KEY_BLOCK

_SHAPE = tile_shape()
_ROWS, _COLUMNS = _SHAPE.rows, _SHAPE.columns
_many = strided_tile(_SHAPE)
_few_1, _few_2, _few_4 = (strided_tile(TileShape(rows, LANES, 4)) for rows in (1, 2, 4))
_narrow_4 = strided_tile(TileShape(4, LANES, 2))
_dots_1, _dots_2, _dots_4 = dots(1), dots(2), dots(4)


@leaf
def scores_of_few(rows: int, q: int, k: int, key_row: int, scores: int, keys: int, width: int) -> None:
    """Queries ``[rows, width]``, 1, 2, 4 or 8 of them, times keys as they lie, ``key_row`` bytes apart.

    Keys up to a multiple of `LANES` are read; the width is a multiple of it.
    """
    row = _BYTES * width
    for key in range(0, keys, LANES):
        at, place = k + key * key_row, scores + _BYTES * key
        if rows == 1:
            _dots_1(q, row, at, key_row, place, _SCORES_ROW, width)
        elif rows == 2:
            for part in range(0, LANES, LANES // 2):
                _dots_2(q, row, at + part * key_row, key_row, place + _BYTES * part, _SCORES_ROW, width)
        else:
            for first in range(0, rows, 4):
                for part in range(0, LANES, LANES // 4):
                    target = place + _BYTES * part + first * _SCORES_ROW
                    _dots_4(q + first * row, row, at + part * key_row, key_row, target, _SCORES_ROW, width)


@leaf
def scores_of_many(
    rows: int,
    q: int,
    k: int,
    key_row: int,
    turned: int,
    scores: int,
    keys: int,
    width: int,
    depth: int,
    horizon: int,
    first_row: int,
    group: int,
) -> None:
    """Queries ``[rows, width]`` of which ``depth`` count, a multiple of 8 rows, times keys, which are transposed first.

    ``turned`` is memory for ``[width, KEY_BLOCK]``. Scores beyond the `reach` of a tile are not computed.
    """
    row = _BYTES * width
    for key in range(0, keys, LANES):
        for i in range(0, width, LANES):
            target = turned + i * _SCORES_ROW + _BYTES * key
            transpose(k + key * key_row + _BYTES * i, key_row, target, _SCORES_ROW)
    for column in range(0, keys, _COLUMNS):  # outside: what all rows read stays in the first cache
        for r in range(0, rows, _ROWS):
            if column < reach(r, horizon, first_row, group, keys):
                target = scores + r * _SCORES_ROW + _BYTES * column
                _many(
                    q + r * row, row, turned + _BYTES * column, _SCORES_ROW, target, _SCORES_ROW, depth, True
                )


@leaf
def add_values(
    rows: int,
    weights: int,
    v: int,
    value_row: int,
    output: int,
    width: int,
    keys: int,
    horizon: int,
    first_row: int,
    group: int,
) -> None:
    """Weights ``[rows, keys]``, 1, 2, 4 or a multiple of 8 rows, times values ``[keys, width]``, added to the output.

    The width is a multiple of 2 * `LANES`. Of one and two rows, four may be written. Of many rows, weights beyond the
    `reach` of a tile are not read.
    """
    row, column = _BYTES * width, 0
    if rows < 8:
        while column + 4 * LANES <= width:
            at, target = v + _BYTES * column, output + _BYTES * column
            if rows == 1:
                _few_1(weights, _SCORES_ROW, at, value_row, target, row, keys, False)
            elif rows == 2:
                _few_2(weights, _SCORES_ROW, at, value_row, target, row, keys, False)
            else:
                _few_4(weights, _SCORES_ROW, at, value_row, target, row, keys, False)
            column += 4 * LANES
        if column < width:
            at, target = v + _BYTES * column, output + _BYTES * column
            _narrow_4(weights, _SCORES_ROW, at, value_row, target, row, keys, False)
        return
    for column in range(0, width, _COLUMNS):
        for r in range(0, rows, _ROWS):
            seen = reach(r, horizon, first_row, group, keys)
            if seen:
                at, target = v + _BYTES * column, output + r * row + _BYTES * column
                _many(weights + r * _SCORES_ROW, _SCORES_ROW, at, value_row, target, row, seen, False)
