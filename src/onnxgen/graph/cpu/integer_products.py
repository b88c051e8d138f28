"""Integer matrix products and convolutions in floating point, where that is exact.

NumPy multiplies integer matrices in plain loops; BLAS is tens of times faster and float32 holds every integer up
to 2**24 (float64 up to 2**53), so sums that stay below are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.graph.cpu.convolution import convolve
from onnxgen.graph.cpu.products import matmul
from onnxgen.graph.cpu.quantization import limits
from onnxgen.graph.cpu.windows import Axis

_EXACT_FLOAT32 = 2**24


def shifted(x: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    """``x - zero_point`` in floating point, exactly: float32 for types of 8 bits and less, else float64."""
    dtype = np.float32 if x.dtype.itemsize == 1 else np.float64
    y = x.astype(dtype)
    if zero_point is not None and zero_point.any():
        y -= zero_point.astype(dtype)
    return y


def peak(dtype: np.dtype, zero_point: np.ndarray | None) -> int:
    """The largest magnitude that `shifted` values of that type can have."""
    low, high = map(int, limits(dtype))
    zeros = (
        (0, 0)
        if zero_point is None or not zero_point.size
        else (int(zero_point.min()), int(zero_point.max()))
    )
    return max(high - zeros[0], zeros[1] - low)


def integer_matmul(a: np.ndarray, b: np.ndarray, *, a_peak: int, b_peak: int) -> np.ndarray:
    """The product of two `shifted` matrices (stacks of them) as int32, which wraps around.

    The inner dimension is cut where sums would stop being exact in float32.
    """
    if a.ndim > 2 and b.ndim == 2:
        product = integer_matmul(a.reshape(-1, a.shape[-1]), b, a_peak=a_peak, b_peak=b_peak)
        return product.reshape(*a.shape[:-1], b.shape[1])
    if np.float64 in (a.dtype, b.dtype):
        return _wrapped(matmul(a, b))
    depth, step = a.shape[-1], max(1, _EXACT_FLOAT32 // max(1, a_peak * b_peak))
    if depth <= step or b.ndim == 1:
        return _wrapped(matmul(a, b) if depth <= step else a.astype(np.float64) @ b)
    parts = (matmul(a[..., i : i + step], b[..., i : i + step, :]) for i in range(0, depth, step))
    total = next(parts).astype(np.int32)
    for part in parts:
        total += part.astype(np.int32)
    return total


def integer_convolve(
    x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], *, group: int, x_peak: int
) -> np.ndarray:
    """The convolution of `shifted` arrays as int32; in float64 where sums could be inexact in float32."""
    heaviest = np.abs(w).sum(axis=tuple(range(1, w.ndim)), dtype=np.float64).max(initial=0)
    dtype = np.float32 if heaviest * x_peak <= _EXACT_FLOAT32 else np.float64
    return _wrapped(_convolve(x.astype(dtype, copy=False), w.astype(dtype, copy=False), axes, group=group))


def _convolve(x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], *, group: int) -> np.ndarray:
    from onnxgen.graph.cpu.sliding_windows import slide_weights
    from onnxgen.graph.cpu.tiled_convolution import MOST_AXES, PackedWeights, convolve_tiles

    if x.dtype != np.float32 or not 1 <= len(axes) <= MOST_AXES or w.size == 0:
        return convolve(x, w, axes, group=group)
    if w.shape[1] == 1 and group > 1:
        return slide_weights(x, w, None, axes)
    return convolve_tiles(x, PackedWeights.of(w, None, group), axes)


def _wrapped(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:  # at most 2**24
        return np.asarray(x.astype(np.int32))
    return np.asarray(x).astype(np.int64).astype(np.int32)
