"""Convolution as products of tiles: patches are gathered for a few columns at a time, never for a whole image.

    y [rows, columns] = w [rows, depth] * patches [depth, columns]

    rows     output channels of a group
    depth    input channels of a group times kernel elements
    columns  pixels of the output

A block of columns is gathered into panels ``[panels, depth, tile columns]`` that stay in the second-level cache while
all rows pass over them; deep sums are cut, and continue where they were.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, inline, written
from onnxgen.graph.cpu.compiled.patches import RUN_FIELDS, cut_into_runs, gatherer
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.tile import TileShape, tile, tile_shape

BLOCK_PANELS = 4
"""Panels of a block of columns."""

MOST_DEPTH = 512
"""Depth of a panel: four of them are a quarter of a megabyte."""

_FLOAT = np.dtype(np.float32)


def packed_rows(matrix: np.ndarray, rows: int) -> np.ndarray:
    """``[group, all rows, depth]`` as ``[group, tiles, depth, rows]``, zeros below the last row; float32."""
    groups, count, depth = matrix.shape
    tiles = -(-count // rows)
    padded = np.zeros((groups, tiles * rows, depth), _FLOAT)
    padded[:, :count] = matrix
    return np.ascontiguousarray(padded.reshape(groups, tiles, rows, depth).swapaxes(2, 3))


@cache
def convolution() -> Callable[..., None]:
    """The compiled loop; see `_loop` for its arguments."""
    shape = tile_shape()
    return compiled(
        _loop(shape, tile(shape), gatherer(shape)),
        [
            given(_FLOAT, 3),
            given(_FLOAT, 4),
            given(_FLOAT, 2),
            written(_FLOAT, 3),
            given(np.int64, 2),
            types.intp,
            types.intp,
            types.intp,
            written(np.int64, 1),
        ],
    )


def _loop(
    shape: TileShape, multiply: Callable[..., None], gather: Callable[..., None]
) -> Callable[..., None]:
    tile_rows, tile_columns = shape.rows, shape.columns
    block_columns = tile_columns * BLOCK_PANELS

    def convolve(
        x: Any, w: Any, bias: Any, y: Any, axes: Any, blocks: int, row_blocks: int, parts: int, claims: Any
    ) -> None:
        """One part is a block of columns and of rows, of a group of an image.

        x       float32 [batch * group, channels, size]
        w       float32 [group, tiles, depth, tile rows], of `packed_rows`
        bias    float32 [group, tiles * tile rows]
        y       float32 [batch * group, rows, columns]
        axes    int64 [3, 6], see `patches`
        """
        groups, tiles, depth = w.shape[0], w.shape[1], w.shape[2]
        rows, columns = y.shape[1], y.shape[2]
        most_depth = min(depth, MOST_DEPTH)
        panels = np.empty(BLOCK_PANELS * most_depth * tile_columns, np.float32)
        spare = np.empty((tile_rows, tile_columns), np.float32)
        runs = np.empty((block_columns + BLOCK_PANELS, RUN_FIELDS), np.int64)
        tiles_each = (tiles + row_blocks - 1) // row_blocks
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            image = part // (blocks * row_blocks)
            group = image % groups
            first_column = part // row_blocks % blocks * block_columns
            last_column = min(columns, first_column + block_columns)
            first_tile = part % row_blocks * tiles_each
            last_tile = min(tiles, first_tile + tiles_each)
            count = cut_into_runs(runs, axes, first_column, last_column, tile_columns)
            for start in range(0, depth, most_depth):
                stop = min(depth, start + most_depth)
                gather(x[image], panels, runs, count, axes, start, stop)
                for index in range(group * tiles + first_tile, group * tiles + last_tile):
                    row = (index - group * tiles) * tile_rows
                    left = address(w) + 4 * (index * depth + start) * tile_rows
                    biases = address(bias) + 4 * index * tile_rows
                    for column in range(first_column, last_column, tile_columns):
                        right = address(panels) + 4 * (column - first_column) * (stop - start)
                        if row + tile_rows <= rows and column + tile_columns <= last_column:
                            target = address(y) + 4 * ((image * rows + row) * columns + column)
                            multiply(left, right, target, stop - start, 4 * columns, biases, start == 0)
                            continue
                        edge = y[
                            image, row : row + tile_rows, column : min(last_column, column + tile_columns)
                        ]
                        if start:
                            copy(edge, spare)
                        multiply(
                            left, right, address(spare), stop - start, 4 * tile_columns, biases, start == 0
                        )
                        copy(spare[: edge.shape[0], : edge.shape[1]], edge)

    return convolve


@inline
def copy(source: Any, target: Any) -> None:
    """Copy a small matrix into the corner of another."""
    for row in range(source.shape[0]):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]
