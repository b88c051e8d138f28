"""Image operators of ``com.microsoft``."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.activations import silu
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices, integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.normalization import normalized
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("GroupNorm", 1, domain=MICROSOFT)
def group_norm(node: NodeSpec) -> Kernel:
    """Groups of channels normalized together with all their pixels, scaled by channel, then activated."""

    def run(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return _group_normed(node, widened(x), gamma, beta).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("SkipGroupNorm", 1, domain=MICROSOFT)
def skip_group_norm(node: NodeSpec) -> Kernel:
    """`group_norm` of the sum of input, skip and bias, which is the second output."""

    def run(
        x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, skip: np.ndarray, bias: np.ndarray | None = None
    ) -> Any:
        last = bool(node.attr("channels_last", 1))
        added = widened(skip)
        if added.ndim == 2:
            added = added[:, None, None] if last else added[:, :, None, None]
        total = widened(x) + added
        if bias is not None:
            total = total + (widened(bias) if last else widened(bias)[:, None, None])
        y = _group_normed(node, total, gamma, beta).astype(x.dtype, copy=False)
        return (y, total.astype(x.dtype, copy=False)) if len(node.outputs) > 1 else y

    return Kernel(run)


def _group_normed(node: NodeSpec, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    last, groups = bool(node.attr("channels_last", 1)), node.attr("groups")
    first = np.moveaxis(x, -1, 1) if last else x  # [batch, channels, ...]
    if first.shape[1] % groups or gamma.shape != first.shape[1:2] or beta.shape != gamma.shape:
        raise KernelError(
            f"{node}: scale {gamma.shape}, bias {beta.shape} and {groups} groups do not fit {first.shape[1]} channels"
        )
    grouped = first.reshape(len(x), groups, -1)
    y = normalized(grouped, (-1,), node.attr("epsilon", 1e-5), centered=True)[0].reshape(first.shape)
    y = y * widened(gamma)[:, None, None] + widened(beta)[:, None, None]
    y = silu(y) if node.attr("activation") == 1 else y
    return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if last else y


@TABLE.operator("CropAndResize", 1, domain=MICROSOFT)
def crop_and_resize(node: NodeSpec) -> Kernel:
    """Boxes of normalized corners ``[y1, x1, y2, x2]`` cut out of images and resized, corners aligned."""
    mode, outside = node.attr("mode", "bilinear"), np.float32(node.attr("extrapolation_value", 0.0))
    if mode not in ("bilinear", "nearest"):
        raise InvalidGraphError(f"{node}: mode {mode!r} is neither bilinear nor nearest")

    def run(x: np.ndarray, boxes: np.ndarray, images: np.ndarray, size: np.ndarray) -> np.ndarray:
        height, width = integers(size)
        if height < 0 or width < 0:
            raise KernelError(f"{node}: crop_size {[height, width]} must not be negative")
        require_memory(node, (len(boxes), x.shape[1], height, width), x.dtype)
        wide = widened(x)
        y = np.empty((len(boxes), x.shape[1], height, width), wide.dtype)
        for place, image in enumerate(checked_indices(node, images, len(x)).tolist()):
            y1, x1, y2, x2 = widened(boxes[place])
            rows, columns = _samples(y1, y2, x.shape[2], height), _samples(x1, x2, x.shape[3], width)
            y[place] = _sampled(wide[image], rows, columns, mode, outside)
        return y.astype(x.dtype, copy=False)

    return Kernel(run)


def _samples(start: float, end: float, size: int, count: int) -> np.ndarray:
    """Where the pixels of the crop are on an axis of the image."""
    if count == 1:
        return np.array([0.5 * (start + end) * (size - 1)], np.float32)
    return (start * (size - 1) + np.arange(count) * (end - start) * (size - 1) / (count - 1)).astype(
        np.float32
    )


def _sampled(
    image: np.ndarray, rows: np.ndarray, columns: np.ndarray, mode: str, outside: np.float32
) -> np.ndarray:
    """``[channels, rows, columns]`` of one image ``[channels, height, width]``."""
    height, width = image.shape[1:]
    inside = ((rows >= 0) & (rows <= height - 1))[:, None] & ((columns >= 0) & (columns <= width - 1))
    r, c = rows.clip(0, height - 1), columns.clip(0, width - 1)
    if mode == "nearest":
        near = (np.floor(part + np.float32(0.5)).astype(np.int64) for part in (r, c))
        y = image[:, *np.ix_(*near)]
    else:
        top, left = np.floor(r).astype(np.int64), np.floor(c).astype(np.int64)
        bottom, right = np.ceil(r).astype(np.int64), np.ceil(c).astype(np.int64)
        down, across = (r - top)[:, None], c - left
        upper = image[:, *np.ix_(top, left)] * (1 - across) + image[:, *np.ix_(top, right)] * across
        lower = image[:, *np.ix_(bottom, left)] * (1 - across) + image[:, *np.ix_(bottom, right)] * across
        y = upper * (1 - down) + lower * down
    return np.where(inside, y, outside)
