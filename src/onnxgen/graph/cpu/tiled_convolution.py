"""Convolution of float32 over up to three axes by compiled tiles, with weights packed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.compiled.convolution import BLOCK_PANELS, convolution, packed_rows
from onnxgen.graph.cpu.compiled.tile import tile_shape
from onnxgen.graph.cpu.team import num_threads, share
from onnxgen.graph.cpu.windows import Axis, out_shape

MOST_AXES = 3
"""Spatial axes that compiled loops go through."""

_OPERATIONS_PER_S = 50e9
"""Of one thread, roughly: to tell what is worth sharing."""

_TILES_WORTH_SPLITTING = 8
"""Tiles of rows that are worth gathering the same columns once more."""


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Weights of a convolution as its tiles read them.

    Attributes:
        channels: Input channels of a group.
        rows: Output channels of a group.
        tiles: float32 ``[group, tiles, depth, rows of a tile]``.
        bias: float32 ``[group, tiles * rows of a tile]``.
    """

    channels: int
    rows: int
    tiles: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, w: np.ndarray, bias: np.ndarray | None, group: int) -> PackedWeights:
        """Pack float32 ``w [out, in / group, *kernel]`` and ``bias [out]``."""
        tile_rows, rows = tile_shape().rows, w.shape[0] // group
        tiles = packed_rows(w.reshape(group, rows, -1), tile_rows)
        padded = np.zeros((group, tiles.shape[1] * tile_rows), np.float32)
        if bias is not None:
            padded[:, :rows] = bias.reshape(group, rows)
        return cls(w.shape[1], rows, tiles, padded)


@dataclass(frozen=True, slots=True)
class Geometry:
    """What axes mean for the loops.

    Attributes:
        table: The axes as numbers; see `axis_table`.
        out: Spatial sizes of the output.
        columns: Their product.
        elements: Of a window.
    """

    table: np.ndarray
    out: tuple[int, ...]
    columns: int
    elements: int

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, axes: tuple[Axis, ...]) -> Geometry:
        """The geometry of those axes."""
        out = out_shape(axes)
        elements = math.prod(axis.kernel for axis in axes)
        return cls(axis_table(_joined(axes)), out, math.prod(out), elements)


def convolve_tiles(
    x: np.ndarray, weights: PackedWeights, axes: Sequence[Axis], out: np.ndarray | None = None
) -> np.ndarray:
    """Correlate float32 ``x [batch, in, *size]`` with packed weights into ``[batch, out, *axes.out]``, bias added.

    Raises:
        KernelError: channels or windows are not those of the weights.
    """
    groups, _, depth, _ = weights.tiles.shape
    geometry = Geometry.of(tuple(axes))
    batch, channels = x.shape[:2]
    if channels != weights.channels * groups or depth != weights.channels * geometry.elements:
        raise KernelError(
            f"weights of {groups} groups, {weights.channels} channels and {depth} elements do not fit {channels} channels "
            f"and windows of {geometry.elements} elements"
        )
    y = np.empty((batch, weights.rows * groups, *geometry.out), np.float32) if out is None else out
    if y.size == 0:
        return y
    images = batch * groups
    blocks = -(-geometry.columns // (tile_shape().columns * BLOCK_PANELS))
    row_blocks = _row_blocks(weights.tiles.shape[1], images * blocks)
    share(
        convolution(),
        np.ascontiguousarray(x).reshape(images, weights.channels, -1),
        weights.tiles,
        weights.bias,
        y.reshape(images, weights.rows, geometry.columns),
        geometry.table,
        blocks,
        row_blocks,
        parts=images * blocks * row_blocks,
        seconds=2 * y.size * depth / _OPERATIONS_PER_S,
    )
    return y


def _row_blocks(tiles: int, blocks: int) -> int:
    """Into how many parts rows are cut, where there are too few blocks of columns for all threads."""
    return max(1, min(tiles // _TILES_WORTH_SPLITTING, -(-num_threads() // blocks)))


def axis_table(axes: Sequence[Axis]) -> np.ndarray:
    """What compiled loops know of the axes: int64 ``[3, 6]``, see `compiled.patches`."""
    missing = [Axis(1, 1, out=1)] * (MOST_AXES - len(axes))
    rows = [(a.size, a.kernel, a.stride, a.dilation, a.pad_begin, a.out) for a in (*missing, *axes)]
    return np.array(rows, np.int64)


def _joined(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """One axis where each window is one element: its rows are longer."""
    if not all(axis.is_pointwise for axis in axes):
        return axes
    size = math.prod(axis.size for axis in axes)
    return (Axis(size, 1, out=size),)
