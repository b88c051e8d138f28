"""Convolution and its transpose on arrays: patches to columns, then one matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.windows import Axis, out_shape, padded, windows

_BLOCK_BYTES = 4 << 20
"""Columns gathered for one matrix product: few enough to stay in the cache, enough to keep BLAS busy."""


def convolve(
    x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], *, group: int = 1, out: np.ndarray | None = None
) -> np.ndarray:
    """Correlate ``x [batch, in, *size]`` with ``w [out, in / group, *kernel]`` into ``[batch, out, *axes.out]``.

    All arrays have one float type and fit (`require_fit`); ``out`` is C-contiguous.
    """
    batch, channels = x.shape[:2]
    spatial = out_shape(axes)
    y = np.empty((batch, w.shape[0], *spatial), x.dtype) if out is None else out
    if y.size == 0:
        return y
    matrix = w.reshape(group, w.shape[0] // group, -1)  # [group, out / group, in / group * kernel]
    result = y.reshape(batch, group, w.shape[0] // group, -1)
    if all(axis.is_pointwise for axis in axes):
        np.matmul(matrix, x.reshape(batch, group, channels // group, -1), out=result)
        return y
    x, axes = padded(x, axes)
    inner = math.prod(spatial[1:])
    rows = max(1, _BLOCK_BYTES // max(1, matrix.shape[2] * group * inner * x.itemsize))
    for image, target in zip(x, result, strict=True):
        view = windows(image, axes)  # [in, *kernel, *out]
        first = view.ndim - len(axes)
        for start in range(0, spatial[0], rows):
            stop = min(start + rows, spatial[0])
            part = view[(slice(None),) * first + (slice(start, stop),)]
            columns = part.reshape(group, matrix.shape[2], (stop - start) * inner)
            np.matmul(matrix, columns, out=target[..., start * inner : stop * inner])
    return y


def require_fit(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, group: int) -> None:
    """Check the channels of ``x [batch, in, ...]``, ``w [out, in / group, ...]`` and ``b [out]``.

    Raises:
        KernelError: they do not fit.
    """
    if group < 1 or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise KernelError(f"weights {w.shape} in {group} groups do not fit {x.shape[1]} input channels")
    _require_bias(b, w.shape[0])


def require_transposed_fit(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, group: int) -> None:
    """Check the channels of ``x [batch, in, ...]``, ``w [in, out / group, ...]`` and ``b [out]``.

    Raises:
        KernelError: they do not fit.
    """
    if group < 1 or x.shape[1] != w.shape[0] or x.shape[1] % group:
        raise KernelError(f"weights {w.shape} in {group} groups do not fit {x.shape[1]} input channels")
    _require_bias(b, w.shape[1] * group)


def _require_bias(b: np.ndarray | None, channels: int) -> None:
    if b is not None and b.shape != (channels,):
        raise KernelError(f"bias {b.shape} does not fit {channels} output channels")


def scatter(columns: np.ndarray, y: np.ndarray, axes: Sequence[Axis]) -> None:
    """Add ``columns [..., *kernel, *out]`` to the elements of ``y [..., *size]`` that the windows saw."""
    lead = y.ndim - len(axes)
    for offset in np.ndindex(*(axis.kernel for axis in axes)):
        pairs = [axis.meet(k) for axis, k in zip(axes, offset, strict=True)]
        source = columns[(slice(None),) * lead + offset]
        y[..., *(seen for _, seen in pairs)] += source[..., *(window for window, _ in pairs)]


def convolve_transposed(x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], *, group: int = 1) -> np.ndarray:
    """Spread ``x [batch, in, *axes.out]`` by ``w [in, out / group, *kernel]`` into ``[batch, out, *axes.size]``.

    ``axes`` are those of the convolution that this one transposes: its input is our output.
    """
    batch, channels = x.shape[:2]
    per_group, kernel = w.shape[1], w.shape[2:]
    y = np.zeros((batch, group, per_group, *(axis.size for axis in axes)), x.dtype)
    if x.size == 0 or y.size == 0:
        return y.reshape(batch, group * per_group, *y.shape[3:])
    source = x.reshape(batch, group, channels // group, -1)
    weights = w.reshape(group, channels // group, per_group, math.prod(kernel))
    column_bytes = math.prod(kernel) * source.shape[-1] * group * x.itemsize
    block = max(1, 8 * _BLOCK_BYTES // column_bytes)
    for start in range(0, per_group, block):
        part = weights[:, :, start : start + block]  # [group, in / group, block, kernel]
        matrix = part.reshape(group, channels // group, -1).swapaxes(1, 2)
        for image, target in zip(source, y, strict=True):
            columns = np.matmul(matrix, image).reshape(group, part.shape[2], *kernel, *x.shape[2:])
            scatter(columns, target[:, start : start + block], axes)
    return y.reshape(batch, group * per_group, *y.shape[3:])
