"""Products of matrices: compiled tiles for what one thread does not do at once, else BLAS.

BLAS is as fast on an idle machine. Its threads wait for each other by spinning, though: beside other work, that of our
own threads included, the same product takes tens of times longer.
"""

from __future__ import annotations

import math

import numpy as np

_SMALL = 1 << 18
"""Multiply-adds that one thread of BLAS does alone."""


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``a @ b`` as NumPy has it, for any types and ranks.

    Args:
        a: The left operand.
        b: The right operand.
        out: Where the result goes, C-contiguous.
    """
    shape = _tiled_shape(a, b)
    if shape is None:
        return np.matmul(a, b) if out is None else np.matmul(a, b, out)
    from onnxgen.graph.cpu.tiled_products import multiply

    y = np.empty(shape, np.float32) if out is None else out
    multiply(a, b, y)
    return y


def _tiled_shape(a: np.ndarray, b: np.ndarray) -> tuple[int, ...] | None:
    """The result's shape where tiles are a good choice."""
    if a.dtype != np.float32 or b.dtype != np.float32 or a.ndim < 2 or b.ndim < 2:
        return None
    depth, columns = b.shape[-2:]
    rows = math.prod(a.shape[:-1]) if b.ndim == 2 else a.shape[-2]
    if a.shape[-1] != depth or rows * depth * columns <= _SMALL:
        return None
    few = rows < _FEWEST_ROWS and not (b.ndim == 2 and b.flags.c_contiguous)
    if few or (b.ndim > 2 and a.shape[:-2] != b.shape[:-2]):
        return None
    return (*a.shape[:-1], columns)


_FEWEST_ROWS = 4
"""Of a stack of matrices: tiles of fewer are wasted."""
