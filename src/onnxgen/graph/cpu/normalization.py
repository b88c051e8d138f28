"""The arithmetic of layer and root-mean-square normalization."""

from __future__ import annotations

import math

import numpy as np

from onnxgen.graph.cpu.rowwise import normalize_rows


def normalized(
    x: np.ndarray,
    axes: tuple[int, ...],
    epsilon: float,
    *,
    centered: bool,
    scale: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``x`` of unit variance (or mean square) over the axes, with the mean and the inverse deviation.

    Args:
        x: float32 or float64.
        axes: What is normalized together: the last ones.
        epsilon: Added to the variance.
        centered: Whether the mean is subtracted first.
        scale: What the result is multiplied by; it broadcasts.
        bias: What is added to it then; it broadcasts.
        out: Where the result goes, C-contiguous and of the type of ``x``, perhaps its memory.
    """
    size, first = math.prod(x.shape[axis] for axis in axes), x.ndim - len(axes)
    kept = (*x.shape[:first], *(1,) * len(axes))
    fused = all(v is None or (v.size == size and v.dtype == x.dtype) for v in (scale, bias))
    if not x.size:
        return (
            (x.copy() if out is None else out),
            np.full(kept, np.nan, x.dtype),
            np.full(kept, np.nan, x.dtype),
        )
    y = np.empty(x.shape, x.dtype) if out is None else out
    mean, inverse = normalize_rows(
        x,
        y,
        axes=len(axes),
        epsilon=epsilon,
        scale=np.ones((1, size), x.dtype) if scale is None or not fused else scale.reshape(1, -1),
        bias=None if bias is None or not fused else bias.reshape(1, -1),
        centered=centered,
    )
    if not fused:
        for ufunc, values in ((np.multiply, scale), (np.add, bias)):
            if values is not None:
                ufunc(y, values, out=y)
    return y, mean.reshape(kept), inverse.reshape(kept)


def rms_normalized(x: np.ndarray, epsilon: float) -> np.ndarray:
    """The last axis divided by the root of its mean square; float32 or float64."""
    return normalized(x, (-1,), epsilon, centered=False)[0]
