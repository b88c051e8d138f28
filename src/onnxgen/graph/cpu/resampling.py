"""Resampling along axes: which input positions the outputs fall on, and the weights of their neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.graph.cpu.sampling import add_up
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls
from onnxgen.graph.cpu.team import share

F32 = np.float32

_ELEMENTS_OF_A_PART = 16384

_ELEMENTS_PER_S = 1e9
"""Neighbours that one thread adds up, roughly: to tell what is worth sharing."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """How one axis changes.

    Attributes:
        size: Length of the input.
        out: Length of the output.
        scale: Output elements per input element, as the model gives it or as ``out / size``.
        start: Where the region of interest starts, as a fraction of the input.
        end: Where it ends.
    """

    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> np.float32:
        """Length of the output before it was rounded down, which is what the corners are aligned to."""
        return F32(self.scale * self.size)


def _half_pixel(s: Stretch, i: np.ndarray) -> np.ndarray:
    return (i + F32(0.5)) / F32(s.scale) - F32(0.5)


def _half_pixel_symmetric(s: Stretch, i: np.ndarray) -> np.ndarray:
    adjustment = F32(s.out) / (F32(s.scale) * F32(s.size))
    return F32(s.size) / 2 * (1 - adjustment) + (i + F32(0.5)) / F32(s.scale) - F32(0.5)


def _align_corners(s: Stretch, i: np.ndarray) -> np.ndarray:
    return i * F32(s.size - 1) / (s.length - 1) if s.out > 1 else np.zeros_like(i)


def _crop_and_resize(s: Stretch, i: np.ndarray) -> np.ndarray:
    if s.out > 1:
        return F32(s.start) * (s.size - 1) + i * F32(s.end - s.start) * (s.size - 1) / F32(s.out - 1)
    return np.full_like(i, 0.5 * (s.start + s.end) * (s.size - 1))


POSITIONS: dict[str, Callable[[Stretch, np.ndarray], np.ndarray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda s, i: _half_pixel(s, i) if s.out > 1 else np.zeros_like(i),
    "align_corners": _align_corners,
    "asymmetric": lambda s, i: i / F32(s.scale),
    "tf_half_pixel_for_nn": lambda s, i: (i + F32(0.5)) / F32(s.scale),
    "tf_crop_and_resize": _crop_and_resize,
}
"""Position of output ``i`` (float32 ``[out]``) in the input, by coordinate transformation mode.

In float32 as exporters and runtimes compute it: at the edge of two pixels one more digit gives another pixel.
"""

NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.floor(x) + (x - np.floor(x) > F32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x) + (x - np.floor(x) >= F32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""Which pixel is nearest to a position, by nearest mode."""


def triangle(distance: np.ndarray) -> np.ndarray:
    """Weights of linear interpolation."""
    return np.maximum(1 - np.abs(distance), 0)


def cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Weights of cubic convolution with coefficient ``a``."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def picked(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """``x[..., rows, :][..., columns]`` for indices that lie inside."""
    y = np.empty((*x.shape[:-2], len(rows), len(columns)), x.dtype)
    if x.dtype.itemsize not in (1, 2, 4, 8) or x.dtype == object:
        y[...] = x.take(rows, -2).take(columns, -1)
        return y
    source, planes = np.ascontiguousarray(x), math.prod(x.shape[:-2])
    rows, columns = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(columns, np.int64)
    arguments = (
        *(source.ctypes.data, planes, *x.shape[-2:], y.ctypes.data, *y.shape[-2:]),
        *(rows.ctypes.data, columns.ctypes.data),
    )
    _nearest_rows(x.dtype.itemsize).run(
        (arguments,), (max(1, min(planes, y.size // _ELEMENTS_OF_A_PART)),), seconds=y.size / _ELEMENTS_PER_S
    )
    return y


@cache
def _nearest_rows(element_bytes: int) -> NodeCalls:
    names = ("x", "planes", "height", "width", "y", "out_height", "out_width", "rows", "columns")
    return NodeCalls(step_kernel("nearest_rows:nearest_rows", names, element_bytes=element_bytes))


@dataclass(frozen=True, slots=True)
class Taps:
    """Neighbours of each output along one axis: ``indices`` and ``weights``, both ``[out, taps]``."""

    indices: np.ndarray
    weights: np.ndarray

    def apply(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Weighted sums of the neighbours along an axis of a float32 or float64 array."""
        from onnxgen.graph.cpu.compiled.gathers import along_axis

        out = len(self.indices)
        y = np.empty((*x.shape[:axis], out, *x.shape[axis + 1 :]), x.dtype)
        blocks = math.prod(x.shape[:axis])
        if y.size == 0:
            return y
        weights = self.weights.astype(x.dtype, copy=False)
        if y.size == blocks * out:
            places = self.indices.astype(np.uint64).T
            add_up(x.reshape(blocks, -1), places, weights.T, y.reshape(blocks, out))
            return y
        each = max(1, _ELEMENTS_OF_A_PART * blocks // (y.size * self.indices.shape[1]))
        share(
            along_axis(x.dtype),
            np.ascontiguousarray(x).reshape(blocks, x.shape[axis], -1),
            self.indices.astype(np.int64, copy=False),
            weights,
            y.reshape(blocks, out, -1),
            each,
            parts=-(-blocks // each),
            seconds=y.size * self.indices.shape[1] / _ELEMENTS_PER_S,
        )
        return y


def taps(
    positions: np.ndarray,
    size: int,
    kernel: Callable[[np.ndarray], np.ndarray],
    *,
    radius: int,
    shrink: float = 1.0,
    exclude_outside: bool = False,
) -> Taps:
    """The neighbours within ``radius`` of each position, and their weights.

    Args:
        positions: In the input, ``[out]``.
        size: Length of the input; neighbours outside repeat its ends.
        kernel: Weight by distance.
        radius: Where the kernel becomes zero.
        shrink: Factor below 1 that widens the kernel against aliasing; weights are normalized then.
        exclude_outside: Give neighbours outside no weight, and normalize.
    """
    exact = positions.astype(np.float64)
    reach = int(np.ceil(radius / shrink))
    neighbours = np.floor(exact)[:, None] + np.arange(1 - reach, reach + 1)  # [out, taps]
    weights = kernel((neighbours - exact[:, None]) * shrink)
    if exclude_outside:
        weights = np.where((neighbours >= 0) & (neighbours < size), weights, 0)
    if exclude_outside or shrink < 1:
        sums = weights.sum(1, keepdims=True)
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums != 0)
    return Taps(np.clip(neighbours, 0, size - 1).astype(np.intp), weights)
