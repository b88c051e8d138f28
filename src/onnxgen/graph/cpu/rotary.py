"""Rotary position embedding of one tensor."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.head_rows import FLOAT_TYPES, Angles, Move, move_heads


def rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *, interleaved: bool) -> np.ndarray:
    """Rotate pairs of the first ``2 * half`` elements of the last axis; the others stay.

    Args:
        x: ``[..., head_dim]``, float32 or float64.
        cos: Broadcasts to ``[..., half]``.
        sin: As ``cos``.
        interleaved: Pairs are neighbours; otherwise an element of the first half and one of the second.
    """
    half = cos.shape[-1]
    y = x.copy()
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    real, imaginary = x[..., first], x[..., second]
    y[..., first] = real * cos - imaginary * sin
    y[..., second] = imaginary * cos + real * sin
    return y


def rotate_heads(
    x: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    positions: np.ndarray,
    y: np.ndarray,
    *,
    interleaved: bool,
) -> None:
    """`rotated` for ``[batch, seq, heads, head_dim]`` by the angles of positions.

    Args:
        x: Of any strides.
        cos: ``[positions, half]``, with ``2 * half`` at most ``head_dim``.
        sin: As ``cos``.
        positions: ``[batch, seq]``, each within ``cos``.
        y: Of the shape and type of ``x``, whose last axis lies side by side; perhaps its memory.
        interleaved: See `rotated`.
    """
    if not {x.dtype, y.dtype, cos.dtype, sin.dtype} <= FLOAT_TYPES:
        turned = (widened(table)[positions][:, :, None] for table in (cos, sin))
        y[...] = rotated(widened(x), *turned, interleaved=interleaved)
        return
    tables = np.ascontiguousarray(cos), np.ascontiguousarray(sin)
    angles = Angles(*tables, np.ascontiguousarray(positions, np.int64), interleaved)
    move_heads(Move(x if x.strides[3] == x.itemsize else np.ascontiguousarray(x), y, angles=angles))
