"""Products of matrices by tiles.

    c [rows, columns] = a [rows, depth] * b [depth, columns]

A block of rows is packed tile by tile, then each panel of columns, which all of these rows pass over while it is in the
cache. Columns that are used again and again can be packed before.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.convolution import copy
from onnxgen.graph.cpu.compiled.function import address, compiled, given, inline, written
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.tile import TileShape, tile, tile_shape

MOST_DEPTH = 512
"""Depth of what is multiplied before the next part of it: the rows of a block stay in the second-level cache."""

BLOCK_TILES = 16
"""Tiles of rows that pass over a panel while it is in the cache."""

_FLOAT = np.dtype(np.float32)


def packed_columns(b: np.ndarray, columns: int) -> np.ndarray:
    """``[depth, all columns]`` as ``[panels, depth, columns]``, float32, zeros beyond the last column."""
    depth, count = b.shape
    panels = -(-count // columns)
    packed = np.zeros((panels, depth, columns), _FLOAT)
    whole = count // columns
    packed[:whole] = b[:, : whole * columns].reshape(depth, whole, columns).swapaxes(0, 1)
    packed[whole:, :, : count - whole * columns] = b[:, whole * columns :]
    return packed


@cache
def product() -> Callable[..., None]:
    """The compiled loop; see `_loop` for its arguments."""
    shape = tile_shape()
    strided = types.Array(types.float32, 3, "A", readonly=True)
    return compiled(
        _loop(shape, tile(shape)),
        [
            *(strided, strided, given(_FLOAT, 3), written(_FLOAT, 3)),
            *(types.boolean, types.intp, types.intp, written(np.int64, 1)),
        ],
    )


def _loop(shape: TileShape, multiply: Callable[..., None]) -> Callable[..., None]:
    tile_rows, tile_columns = shape.rows, shape.columns

    def multiply_matrices(
        a: Any, b: Any, packed: Any, c: Any, fresh: bool, panels_each: int, parts: int, claims: Any
    ) -> None:
        """One part is a block of rows and some panels of columns, of one matrix of the stack.

        a       float32 [stack or 1, rows, depth] of any strides
        b       float32 [stack or 1, depth, columns] of any strides; not read where there is ``packed``
        packed  float32 [panels, depth, tile columns], of `packed_columns`, for a stack of one; or nothing, [0, 0, 0]
        c       float32 [stack, rows, columns]; ``fresh`` says that it holds nothing yet
        """
        rows, columns = c.shape[1:]
        depth = a.shape[2]
        most_depth = min(depth, MOST_DEPTH)
        block_rows = tile_rows * BLOCK_TILES
        left = np.empty(block_rows * most_depth, np.float32)
        right = np.empty(tile_columns * most_depth, np.float32)
        spare = np.empty((tile_rows, tile_columns), np.float32)
        nothing = np.zeros(tile_rows, np.float32)
        panels = (columns + tile_columns - 1) // tile_columns
        sides = (panels + panels_each - 1) // panels_each
        blocks = (rows + block_rows - 1) // block_rows
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            index = part // (sides * blocks)
            first_row = part // sides % blocks * block_rows
            last_row = min(rows, first_row + block_rows)
            first_panel = part % sides * panels_each
            last_panel = min(panels, first_panel + panels_each)
            factors, matrix, target = a[index % len(a)], b[index % len(b)], c[index]
            for start in range(0, depth, most_depth):
                stop = min(depth, start + most_depth)
                begins = fresh and start == 0
                pack_rows(factors[first_row:last_row, start:stop], left, tile_rows)
                for panel in range(first_panel, last_panel):
                    column = panel * tile_columns
                    if len(packed):
                        columns_at = address(packed) + 4 * (panel * depth + start) * tile_columns
                    else:
                        pack_panel(matrix[start:stop, column : column + tile_columns], right, tile_columns)
                        columns_at = address(right)
                    for row in range(first_row, last_row, tile_rows):
                        rows_at = address(left) + 4 * (row - first_row) * (stop - start)
                        if row + tile_rows <= last_row and column + tile_columns <= columns:
                            at = address(target) + 4 * (row * columns + column)
                            multiply(
                                rows_at, columns_at, at, stop - start, 4 * columns, address(nothing), begins
                            )
                            continue
                        edge = target[row : min(last_row, row + tile_rows), column : column + tile_columns]
                        copy(edge, spare)
                        multiply(
                            rows_at,
                            columns_at,
                            address(spare),
                            stop - start,
                            4 * tile_columns,
                            address(nothing),
                            begins,
                        )
                        copy(spare[: edge.shape[0], : edge.shape[1]], edge)

    return multiply_matrices


@inline
def pack_panel(b: Any, packed: Any, columns: int) -> None:
    """Write ``b [depth, at most columns]`` of any strides as ``[depth, columns]``; what lies beyond is anything."""
    depth, count = b.shape
    if b.strides[0] == 4:
        for j in range(count):
            column = b[:, j]
            for k in range(depth):
                packed[k * columns + j] = column[k]
    elif count == columns and b.strides[1] == 4:
        for k in range(depth):
            row, target = b[k], packed[k * columns : (k + 1) * columns]
            for j in range(columns):
                target[j] = row[j]
    else:
        for k in range(depth):
            for j in range(count):
                packed[k * columns + j] = b[k, j]


@inline
def pack_rows(a: Any, packed: Any, tile_rows: int) -> None:
    """Write ``a [rows, depth]`` as ``[tiles, depth, tile rows]``; what lies below the last row is 0."""
    rows, depth = a.shape
    for first in range(0, rows, tile_rows):
        target = packed[first * depth : (first + tile_rows) * depth]
        for r in range(tile_rows):
            if first + r < rows:
                row = a[first + r]
                for k in range(depth):
                    target[k * tile_rows + r] = row[k]
            else:
                for k in range(depth):
                    target[k * tile_rows + r] = 0


@cache
def few_rows() -> Callable[..., None]:
    """``few_rows(a, b, c, strip, parts, claims)``: ``c = a @ b`` for a row or three, as fast as ``b`` is read.

    ``a [rows, depth]``, ``b [depth, columns]`` and ``c [rows, columns]`` are float32. A part is a strip of
    columns. Each sum runs over the depth in the same order as in a tile.
    """

    def multiply_rows(a: Any, b: Any, c: Any, strip: int, parts: int, claims: Any) -> None:
        rows, depth = a.shape
        columns = c.shape[1]
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            first, last = part * strip, min(columns, (part + 1) * strip)
            c[:, first:last] = 0
            for k in range(0, depth // 4 * 4, 4):
                b0 = b[k, first:last]
                b1 = b[k + 1, first:last]
                b2 = b[k + 2, first:last]
                b3 = b[k + 3, first:last]
                for r in range(rows):
                    total, a0, a1, a2, a3 = c[r, first:last], a[r, k], a[r, k + 1], a[r, k + 2], a[r, k + 3]
                    for j in range(total.size):
                        total[j] = total[j] + a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
            for k in range(depth // 4 * 4, depth):
                row = b[k, first:last]
                for r in range(rows):
                    total, factor = c[r, first:last], a[r, k]
                    for j in range(total.size):
                        total[j] = total[j] + factor * row[j]

    return compiled(
        multiply_rows,
        [
            *(given(_FLOAT, 2), given(_FLOAT, 2), written(_FLOAT, 2)),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
    )
