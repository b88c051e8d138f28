"""Products of matrices by tiles: rows packed as they are needed, columns once.

    c [rows, columns] += a [rows, depth] * b [depth, columns]

``b`` lies in panels ``[panels, depth, tile columns]``, zeros beyond the last column.
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

BLOCK_TILES = 8
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
    return compiled(
        _loop(shape, tile(shape)),
        [
            given(_FLOAT, 2),
            given(_FLOAT, 3),
            written(_FLOAT, 2),
            types.boolean,
            types.intp,
            types.intp,
            written(np.int64, 1),
        ],
    )


def _loop(shape: TileShape, multiply: Callable[..., None]) -> Callable[..., None]:
    tile_rows, tile_columns = shape.rows, shape.columns

    def multiply_matrices(
        a: Any, b: Any, c: Any, fresh: bool, panels_each: int, parts: int, claims: Any
    ) -> None:
        """One part is a block of rows and some panels.

        a      float32 [rows, depth]
        b      float32 [panels, depth, tile columns], of `packed_columns`
        c      float32 [rows, columns]; ``fresh`` says that it holds nothing yet
        """
        rows, depth = a.shape
        columns = c.shape[1]
        most_depth = max(1, min(depth, MOST_DEPTH))
        block_rows = tile_rows * BLOCK_TILES
        left = np.empty(block_rows * most_depth, np.float32)
        spare = np.empty((tile_rows, tile_columns), np.float32)
        nothing = np.zeros(tile_rows, np.float32)
        sides = (len(b) + panels_each - 1) // panels_each
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            first_row = part // sides * block_rows
            last_row = min(rows, first_row + block_rows)
            first_panel = part % sides * panels_each
            last_panel = min(len(b), first_panel + panels_each)
            for start in range(0, depth, most_depth):
                stop = min(depth, start + most_depth)
                pack_rows(a[first_row:last_row, start:stop], left, tile_rows)
                begins = fresh and start == 0
                for panel in range(first_panel, last_panel):
                    right = address(b) + 4 * (panel * depth + start) * tile_columns
                    column = panel * tile_columns
                    for row in range(first_row, last_row, tile_rows):
                        factors = address(left) + 4 * (row - first_row) * (stop - start)
                        if row + tile_rows <= last_row and column + tile_columns <= columns:
                            target = address(c) + 4 * (row * columns + column)
                            multiply(
                                factors, right, target, stop - start, 4 * columns, address(nothing), begins
                            )
                            continue
                        edge = c[row : min(last_row, row + tile_rows), column : column + tile_columns]
                        copy(edge, spare)
                        multiply(
                            factors,
                            right,
                            address(spare),
                            stop - start,
                            4 * tile_columns,
                            address(nothing),
                            begins,
                        )
                        copy(spare[: edge.shape[0], : edge.shape[1]], edge)

    return multiply_matrices


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
