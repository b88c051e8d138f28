"""Products with float32 matrices whose columns are packed once."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.products import BLOCK_TILES, packed_columns, product
from onnxgen.graph.cpu.compiled.tile import tile_shape
from onnxgen.graph.cpu.team import num_threads, share

_OPERATIONS_PER_S = 50e9
"""Of one thread, roughly: to tell what is worth sharing."""


def pack(b: np.ndarray) -> np.ndarray:
    """``b [depth, columns]`` as `multiply` reads it; any strides."""
    return packed_columns(b, tile_shape().columns)


def multiply(a: np.ndarray, packed: np.ndarray, c: np.ndarray, *, fresh: bool = True) -> None:
    """``c = a @ b``, or with ``fresh=False`` ``c += a @ b``.

    Args:
        a: float32 ``[rows, depth]``.
        packed: ``b`` by `pack`.
        c: float32 ``[rows, columns]``, C-contiguous.
        fresh: Whether ``c`` holds nothing yet.
    """
    if c.size == 0:
        return
    rows, panels = len(a), len(packed)
    seconds = 2 * c.size * packed.shape[1] / _OPERATIONS_PER_S
    row_blocks = -(-rows // (BLOCK_TILES * tile_shape().rows))
    sides = min(panels, max(1, -(-4 * num_threads() // row_blocks)))
    each = -(-panels // sides)
    share(
        product(),
        np.ascontiguousarray(a),
        packed,
        c,
        fresh,
        each,
        parts=row_blocks * -(-panels // each),
        seconds=seconds,
    )
