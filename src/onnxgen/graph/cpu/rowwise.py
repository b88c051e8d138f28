"""Normalization along the last axes, by compiled loops that read each row from memory once."""

from __future__ import annotations

import math

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.row_norms import norm_rows
from onnxgen.graph.cpu.team import share

_NORMALIZED_PER_S = 3e9
"""Elements of one thread, roughly: to tell what is worth sharing."""

_ELEMENTS_OF_A_PART = 16384


def normalize_rows(
    x: np.ndarray,
    y: np.ndarray,
    *,
    axes: int,
    epsilon: float,
    scale: np.ndarray,
    bias: np.ndarray | None,
    centered: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Bring the last axes to unit variance, or mean square where not centered, then scale and shift.

    Args:
        x: float32 or float64, with elements.
        y: Of its shape and type, C-contiguous, perhaps its memory.
        axes: How many axes are normalized together.
        epsilon: Added to the variance.
        scale: Of the type of ``x``: ``[periods, channels]``. A row is as many channels as that, each with its own number
            for all its elements, and every row takes the next period.
        bias: Likewise; None for 0.
        centered: Whether the mean is subtracted first.

    Returns:
        The means and the inverse deviations (from the mean, or from 0), ``[rows]``.

    Raises:
        KernelError: scale and bias do not fit each other or the rows.
    """
    from onnxgen.graph.cpu.compiled.rows import normalize

    size = math.prod(x.shape[x.ndim - axes :])
    if size % scale.shape[1] or (bias is not None and bias.shape != scale.shape):
        raise KernelError(
            f"scale {scale.shape} and bias {None if bias is None else bias.shape} do not fit {size} elements"
        )
    rows = x.size // size
    statistics = np.empty((2, rows), x.dtype)
    if x.dtype == np.float32 and scale.shape == (1, size):
        means, inverses = statistics
        norm_rows(
            *(x, y),
            axes=axes,
            epsilon=epsilon,
            centered=centered,
            weight=scale,
            offset=bias,
            means=means,
            inverses=inverses,
        )
        return means, inverses
    each = _rows_each(size)
    share(
        normalize(x.dtype, centered=centered),
        np.ascontiguousarray(x).reshape(rows, size),
        np.ascontiguousarray(scale),
        np.zeros_like(scale) if bias is None else np.ascontiguousarray(bias),
        x.dtype.type(epsilon),
        y.reshape(rows, size),
        statistics[0],
        statistics[1],
        each,
        parts=-(-rows // each),
        seconds=x.size / _NORMALIZED_PER_S,
    )
    return statistics[0], statistics[1]


def scale_rows(x: np.ndarray, factors: np.ndarray, offsets: np.ndarray, y: np.ndarray) -> None:
    """Each channel times its factor, plus its offset: ``[batch, channels, ...]`` and ``[channels]``, float32 or float64.

    ``y`` is C-contiguous, perhaps the memory of ``x``.

    Raises:
        KernelError: there are not as many factors and offsets as channels.
    """
    from onnxgen.graph.cpu.compiled.rows import affine

    if not factors.shape == offsets.shape == x.shape[1:2]:
        raise KernelError(
            f"{factors.size} factors and {offsets.size} offsets do not fit {x.shape[1]} channels"
        )
    if x.size == 0:
        return
    rows = x.shape[0] * x.shape[1]
    each = _rows_each(x.size // rows)
    share(
        affine(x.dtype),
        np.ascontiguousarray(x).reshape(rows, -1),
        factors,
        offsets,
        y.reshape(rows, -1),
        each,
        parts=-(-rows // each),
        seconds=x.size / _NORMALIZED_PER_S,
    )


def _rows_each(size: int) -> int:
    return max(1, _ELEMENTS_OF_A_PART // size)
