"""Pooling: padded and strided windows, which onnx.reference places wrongly for MaxPool, and operators it lacks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@dataclass(frozen=True, slots=True)
class _Axis:
    """How windows lie along one axis."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    count: int

    def inside(self, index: int) -> list[int]:
        """The positions of a window that are not padding."""
        start = index * self.stride - self.before
        places = range(start, start + self.kernel * self.dilation, self.dilation)
        return [place for place in places if 0 <= place < self.size]


def _axes(
    spatial: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> list[_Axis]:
    rank = len(spatial)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    axes: list[_Axis] = []
    for d in range(rank):
        reach = (kernel[d] - 1) * dilations[d] + 1
        before, behind = pads[d], pads[d + rank]
        if auto_pad.startswith("SAME"):
            needed = max((-(-spatial[d] // strides[d]) - 1) * strides[d] + reach - spatial[d], 0)
            before = needed // 2 if auto_pad == "SAME_UPPER" else needed - needed // 2
            behind = needed - before
        elif auto_pad == "VALID":
            before = behind = 0
        room = spatial[d] + before + behind - reach
        count = (-(-room // strides[d]) if ceil_mode else room // strides[d]) + 1
        if ceil_mode and (count - 1) * strides[d] >= spatial[d] + before:
            count -= 1  # the last window would lie in the padding behind
        axes.append(_Axis(spatial[d], kernel[d], strides[d], dilations[d], before, max(count, 0)))
    return axes


def _windows(axes: Sequence[_Axis]) -> Iterator[tuple[tuple[int, ...], list[list[int]]]]:
    """Each output position with the input positions of its window, per axis."""
    for place in itertools.product(*(range(axis.count) for axis in axes)):
        yield place, [axis.inside(index) for axis, index in zip(axes, place, strict=True)]


@OWN.operator("MaxPool", 1, 8, 10, 11, 12, 22)
class MaxPool(OpRun):
    """The greatest of each window, and where it lies in the flattened input."""

    def _run(
        self, x: np.ndarray, *, kernel_shape: Sequence[int], storage_order: int = 0, **layout: Any
    ) -> Any:
        spatial = x.shape[2:]
        axes = _axes(spatial, kernel_shape, **layout)
        shape = x.shape[:2] + tuple(axis.count for axis in axes)
        y, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        flat = np.arange(int(np.prod(spatial))).reshape(spatial, order="F" if storage_order else "C")
        images = np.arange(shape[0] * shape[1]).reshape(shape[:2]) * flat.size
        for place, window in _windows(axes):
            cut = x[(slice(None), slice(None), *np.ix_(*window))].reshape(*shape[:2], -1)
            best = cut.argmax(axis=2)
            y[(..., *place)] = np.take_along_axis(cut, best[..., None], 2)[..., 0]
            indices[(..., *place)] = flat[np.ix_(*window)].reshape(-1)[best] + images
        return y, indices


@OWN.operator("AveragePool", 1)
class AveragePool(OpRun):
    """The mean of each window; padding does not count."""

    def _run(self, x: np.ndarray, *, kernel_shape: Sequence[int], **layout: Any) -> Any:
        axes = _axes(x.shape[2:], kernel_shape, **layout)
        y = np.empty(x.shape[:2] + tuple(axis.count for axis in axes), x.dtype)
        for place, window in _windows(axes):
            cut = x[(slice(None), slice(None), *np.ix_(*window))].astype(np.float64)
            y[(..., *place)] = cut.mean(axis=tuple(range(2, x.ndim)))
        return (y,)


@OWN.operator("GlobalLpPool", 1, 2, 22)
class GlobalLpPool(OpRun):
    """The norm of each image."""

    def _run(self, x: np.ndarray, *, p: float) -> Any:
        powers = np.abs(x.astype(np.float64)) ** p
        norm = powers.sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
        return (np.asarray(norm).astype(x.dtype),)


@OWN.operator("MaxRoiPool", 1, 22)
class MaxRoiPool(OpRun):
    """The greatest of each cell of a grid over regions, whose corners are rounded to whole positions."""

    def _run(
        self, x: np.ndarray, rois: np.ndarray, *, pooled_shape: Sequence[int], spatial_scale: float
    ) -> Any:
        y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
        for region, roi in enumerate(rois):
            left, top, right, bottom = (int(np.floor(side * spatial_scale + 0.5)) for side in roi[1:])
            image = x[int(roi[0])]
            rows = _cells(top, bottom, pooled_shape[0], x.shape[2])
            columns = _cells(left, right, pooled_shape[1], x.shape[3])
            for (row, vertical), (column, across) in itertools.product(enumerate(rows), enumerate(columns)):
                cell = image[:, vertical, across]
                if cell.size:
                    y[region, :, row, column] = cell.max(axis=(1, 2))
        return (y,)


def _cells(first: int, last: int, count: int, size: int) -> list[slice]:
    step = max(last - first + 1, 1) / count
    edges = [(int(np.floor(i * step)) + first, int(np.ceil((i + 1) * step)) + first) for i in range(count)]
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]
