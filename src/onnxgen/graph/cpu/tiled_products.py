"""Products of float32 matrices by compiled tiles."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.products import BLOCK_TILES, few_rows, packed_columns, product
from onnxgen.graph.cpu.compiled.tile import tile_shape
from onnxgen.graph.cpu.team import num_threads, share

FEWEST_ROWS = 4
"""Fewer rows waste too much of a tile, and are bound by memory anyway."""

_SHORTEST_STRIP = 512
"""Columns that are read together: the longer, the better memory is read ahead."""

_OPERATIONS_PER_S = 50e9
_ELEMENTS_PER_S = 5e9
"""Of one thread, roughly: to tell what is worth sharing."""

_NOTHING, _UNREAD = np.empty((0, 0, 0), np.float32), np.empty((1, 0, 0), np.float32)


def pack(b: np.ndarray) -> np.ndarray:
    """``b [depth, columns]`` as `multiply_packed` reads it; any strides."""
    return packed_columns(b, tile_shape().columns)


def multiply_packed(a: np.ndarray, packed: np.ndarray, c: np.ndarray, *, fresh: bool = True) -> None:
    """``c = a @ b``, or with ``fresh=False`` ``c += a @ b``.

    Args:
        a: float32 ``[rows, depth]`` of any strides.
        packed: ``b`` by `pack`.
        c: float32 ``[rows, columns]``, C-contiguous.
        fresh: Whether ``c`` holds nothing yet.
    """
    _multiply(a[None], _UNREAD, packed, c[None], fresh)


def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """``c = a @ b`` for what `products.matmul` passes on.

    Args:
        a: float32 ``[..., rows, depth]`` of any strides.
        b: float32 ``[..., depth, columns]`` of any strides: one matrix, or as many as ``a`` has.
        c: float32 ``[..., rows, columns]``, C-contiguous.
    """
    depth, columns = b.shape[-2:]
    if b.ndim > 2:
        left, right, target = (v.reshape(-1, *v.shape[-2:]) for v in (a, b, c))
        _multiply(left, right, _NOTHING, target, True)
        return
    rows = a.reshape(-1, depth)
    if len(rows) >= FEWEST_ROWS:
        _multiply(rows[None], b[None], _NOTHING, c.reshape(1, -1, columns), True)
        return
    strip = max(_SHORTEST_STRIP, -(-columns // (2 * num_threads())))
    share(
        few_rows(),
        np.ascontiguousarray(rows),
        b,
        c.reshape(-1, columns),
        strip,
        parts=-(-columns // strip),
        seconds=b.size / _ELEMENTS_PER_S,
    )


def _multiply(a: np.ndarray, b: np.ndarray, packed: np.ndarray, c: np.ndarray, fresh: bool) -> None:
    if c.size == 0:
        return
    stack, rows, columns = c.shape
    seconds = 2 * c.size * a.shape[2] / _OPERATIONS_PER_S
    blocks, panels = (
        stack * -(-rows // (BLOCK_TILES * tile_shape().rows)),
        -(-columns // tile_shape().columns),
    )
    sides = min(panels, max(1, -(-4 * num_threads() // blocks)))
    each = -(-panels // sides)
    share(product(), a, b, packed, c, fresh, each, parts=blocks * -(-panels // each), seconds=seconds)
