"""Rotary position embedding of one tensor."""

from __future__ import annotations

import numpy as np


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
