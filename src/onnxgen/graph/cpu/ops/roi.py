"""Pooling over regions of interest: ``RoiAlign`` and ``MaxRoiPool``."""

from __future__ import annotations

import math

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RoiAlign", 10)
def roi_align_10(node: NodeSpec) -> Kernel:
    """`roi_align` whose regions are at least one pixel wide and not shifted by half a pixel."""
    return _roi_align(node, half_pixel=False)


@TABLE.operator("RoiAlign", 16, 22)
def roi_align(node: NodeSpec) -> Kernel:
    """The mean or the largest of samples between pixels, in a grid over each region ``(x1, y1, x2, y2)``."""
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise InvalidGraphError(
            f"{node} has coordinate_transformation_mode {mode!r}; known are half_pixel, output_half_pixel"
        )
    return _roi_align(node, half_pixel=mode == "half_pixel")


def _roi_align(node: NodeSpec, *, half_pixel: bool) -> Kernel:
    out = (node.attr("output_height", 1), node.attr("output_width", 1))
    ratio, scale, mode = (
        node.attr("sampling_ratio", 0),
        node.attr("spatial_scale", 1.0),
        node.attr("mode", "avg"),
    )
    if mode not in ("avg", "max"):
        raise InvalidGraphError(f"{node} has mode {mode!r}; known are avg, max")

    def run(x: np.ndarray, rois: np.ndarray, batch_indices: np.ndarray) -> np.ndarray:
        wide, regions = widened(x), widened(rois) * widened(rois).dtype.type(scale) - 0.5 * half_pixel
        images = checked_indices(node, batch_indices, len(x), from_end=False)
        if not np.isfinite(regions).all():
            raise KernelError(f"{node}: regions have corners that are not finite")
        require_memory(node, (len(rois), x.shape[1], *out), x.dtype)
        y = np.zeros((len(rois), x.shape[1], *out), x.dtype)
        for target, (x1, y1, x2, y2), image in zip(y, regions.tolist(), images.tolist(), strict=True):
            sides = ((y1, y2 - y1), (x1, x2 - x1))
            if not half_pixel:
                sides = tuple((start, max(length, 1.0)) for start, length in sides)
            grid = [ratio or math.ceil(length / n) for (_, length), n in zip(sides, out, strict=True)]
            if min(grid) <= 0:
                continue
            samples_of_corners = (2 * n * count for n, count in zip(out, grid, strict=True))
            require_memory(node, (x.shape[1], *samples_of_corners), wide.dtype)
            (rows, tops), (columns, lefts) = (
                _samples(start, length, n, count, size)
                for (start, length), n, count, size in zip(sides, out, grid, x.shape[2:], strict=True)
            )
            seen = wide[image][:, rows[:, :, None, None], columns]  # [channels, 2, ys, 2, xs]
            corners = seen * (tops[:, :, None, None] * lefts).astype(wide.dtype)
            samples = corners.sum((1, 3)) if mode == "avg" else corners.max((1, 3))
            cells = samples.reshape(-1, out[0], grid[0], out[1], grid[1])
            target[...] = cells.mean((2, 4)) if mode == "avg" else cells.max((2, 4))
        return y

    return Kernel(run)


def _samples(start: float, length: float, out: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels before and after each sample of one side and their weights, both ``[2, out * count]``."""
    places = start + (np.arange(out * count) + 0.5) * (length / (out * count))
    inside = (places >= -1) & (places <= size)
    places = np.clip(places, 0, size - 1)
    low = np.minimum(places.astype(np.intp), size - 1)
    fraction = places - low
    indices = np.stack([low, np.minimum(low + 1, size - 1)])
    return indices, np.stack([1 - fraction, fraction]) * inside


@TABLE.operator("MaxRoiPool", 1, 22)
def max_roi_pool(node: NodeSpec) -> Kernel:
    """The largest element of each cell of regions ``(batch index, x1, y1, x2, y2)``; 0 where a cell is empty."""
    (height, width), scale = node.attr("pooled_shape"), node.attr("spatial_scale", 1.0)

    def run(x: np.ndarray, rois: np.ndarray) -> np.ndarray:
        require_memory(node, (len(rois), x.shape[1], height, width), x.dtype)
        images = checked_indices(node, rois[:, 0].astype(int), len(x), from_end=False)
        y = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
        corners = np.floor(widened(rois)[:, 1:] * scale + 0.5).astype(int)  # half up, as C rounds these
        for target, image, (x1, y1, x2, y2) in zip(y, images, corners.tolist(), strict=True):
            rows = _cells(y1, y2, height, x.shape[2])
            columns = _cells(x1, x2, width, x.shape[3])
            for (i, (top, bottom)), (j, (left, right)) in (
                (row, column) for row in enumerate(rows) for column in enumerate(columns)
            ):
                if bottom > top and right > left:
                    target[:, i, j] = x[image, :, top:bottom, left:right].max((1, 2))
        return y

    return Kernel(run)


def _cells(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    length = np.float32(max(last - first + 1, 1)) / np.float32(count)
    steps = np.arange(count + 1, dtype=np.float32) * length
    starts = np.clip(np.floor(steps[:-1]).astype(int) + first, 0, size)
    ends = np.clip(np.ceil(steps[1:]).astype(int) + first, 0, size)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
