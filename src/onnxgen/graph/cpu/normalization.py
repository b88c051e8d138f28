"""The arithmetic of layer and root-mean-square normalization."""

from __future__ import annotations

import numpy as np


def normalized(
    x: np.ndarray, axes: tuple[int, ...], epsilon: float, *, centered: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``x`` of unit variance (or mean square) over the axes, with the mean and the inverse deviation.

    Args:
        x: float32 or float64.
        axes: What is normalized together.
        epsilon: Added to the variance.
        centered: Whether the mean is subtracted first.
    """
    mean = x.mean(axis=axes, keepdims=True)
    spread = x - mean if centered else x
    inverse = 1 / np.sqrt(np.square(spread).mean(axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return spread * inverse, mean, inverse


def rms_normalized(x: np.ndarray, epsilon: float) -> np.ndarray:
    """The last axis divided by the root of its mean square; float32 or float64."""
    return normalized(x, (-1,), epsilon, centered=False)[0]
