"""``GridSample``, ``AffineGrid`` and ``DeformConv``: reading images between their pixels."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.resampling import cubic
from onnxgen.graph.cpu.sampling import Boundary, gather, linear_neighbours, zero_outside
from onnxgen.graph.cpu.windows import WindowSpec, out_shape
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_MODES = {
    "bilinear": "linear",
    "bicubic": "cubic",
    "linear": "linear",
    "nearest": "nearest",
    "cubic": "cubic",
}
_CUBIC_A = -0.75


@TABLE.operator("GridSample", 1, domain=MICROSOFT, name="grid_sample/microsoft")
@TABLE.operator("GridSample", 16, 20, 22)
def grid_sample(node: NodeSpec) -> Kernel:
    """Sample ``x [batch, channels, *size]`` at ``grid [batch, *out, axes]``, whose last axis counts from the last of x.

    A grid value of -1 is the first and 1 the last pixel: their centres with ``align_corners``, else their outer edges.
    """
    mode, padding = node.attr("mode", "linear"), node.attr("padding_mode", "zeros")
    align = bool(node.attr("align_corners", 0))
    if mode not in _MODES or padding not in ("zeros", "border", "reflection"):
        raise InvalidGraphError(
            f"{node} has mode {mode!r} and padding_mode {padding!r}, which it does not know"
        )
    mode = _MODES[mode]
    boundary = zero_outside if padding == "zeros" else _border if padding == "border" else _reflection(align)

    def run(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
        wide = widened(x)
        points = widened(grid)[..., ::-1].reshape(grid.shape[0], -1, x.ndim - 2)  # [batch, points, axes]
        y = np.empty((*x.shape[:2], points.shape[1]), x.dtype)
        for image, places, target in zip(wide, points.astype(wide.dtype), y, strict=True):
            neighbours = [
                _neighbours(_pixels(places[:, axis], size, align, padding, mode), mode)
                for axis, size in enumerate(x.shape[2:])
            ]
            target[...] = gather(image, neighbours, boundary)
        return y.reshape(*x.shape[:2], *grid.shape[1:-1])

    return Kernel(run)


def _pixels(places: np.ndarray, size: int, align: bool, padding: str, mode: str) -> np.ndarray:
    pixels = (places + 1) / 2 * (size - 1) if align else ((places + 1) * size - 1) / 2
    if mode == "nearest":
        pixels = np.rint(pixels)
    if (
        padding == "border" and mode != "cubic"
    ):  # there the neighbours are clipped, not the place between them
        return np.clip(pixels, 0, size - 1)
    return _reflected(pixels, size, align) if padding == "reflection" else pixels


def _neighbours(pixels: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    if mode == "linear":
        return linear_neighbours(pixels)
    if mode == "nearest":
        return np.rint(pixels).astype(np.intp)[None], np.ones((1, len(pixels)), pixels.dtype)
    index = np.floor(pixels) + np.arange(-1, 3)[:, None]  # [4, points]
    return index.astype(np.intp), cubic(index - pixels, _CUBIC_A).astype(pixels.dtype)


def _border(index: np.ndarray, size: int) -> tuple[np.ndarray, None]:
    return np.clip(index, 0, size - 1), None


def _reflection(align: bool) -> Boundary:
    def boundary(index: np.ndarray, size: int) -> tuple[np.ndarray, None]:
        mirrored = _reflected(index.astype(np.float64), size, align)
        return np.clip(np.rint(mirrored), 0, size - 1).astype(np.intp), None

    return boundary


def _reflected(pixels: np.ndarray, size: int, align: bool) -> np.ndarray:
    """Fold positions back between the centres (``align``) or the outer edges of the first and last pixel."""
    low, length = (0.0, size - 1) if align else (-0.5, size)
    if length == 0:
        return np.zeros_like(pixels)
    away = np.mod(pixels - low, 2 * length)
    return np.minimum(away, 2 * length - away) + low


@TABLE.operator("AffineGrid", 20)
def affine_grid(node: NodeSpec) -> Kernel:
    """The grid ``[batch, *out, axes]`` of an affine map ``theta [batch, axes, axes + 1]`` for ``GridSample``."""
    align = bool(node.attr("align_corners", 0))

    def run(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
        wide, (batch, _, *out) = widened(theta), integers(size)
        if theta.shape != (batch, len(out), len(out) + 1) or min(out, default=0) < 0:
            raise KernelError(f"{node}: theta {theta.shape} does not fit size {integers(size)}")
        require_memory(node, (max(batch, 2), *out, len(out)), wide.dtype)
        lines = [_centres(length, align) for length in out]
        grid = np.stack(
            [*np.meshgrid(*lines, indexing="ij")[::-1], np.ones([len(line) for line in lines])], -1
        )
        y = grid.reshape(-1, grid.shape[-1]).astype(wide.dtype) @ wide.swapaxes(1, 2)  # [batch, points, axes]
        return y.reshape(theta.shape[0], *grid.shape[:-1], -1).astype(theta.dtype, copy=False)

    return Kernel(run)


def _centres(length: int, align: bool) -> np.ndarray:
    if align:
        return np.linspace(-1, 1, length)
    return (2 * np.arange(length) + 1) / length - 1


@TABLE.operator("DeformConv", 19, 22)
def deform_conv(node: NodeSpec) -> Kernel:
    """Convolution whose windows read the input at offsets of their own, times a mask."""
    spec, group, offset_groups = WindowSpec.of(node), node.attr("group", 1), node.attr("offset_group", 1)

    def run(
        x: np.ndarray,
        w: np.ndarray,
        offset: np.ndarray,
        b: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> np.ndarray:
        wide, weights = widened(x), widened(w)
        axes = spec.axes(x.shape[2:], w.shape[2:])
        rank, out = len(axes), out_shape(axes)
        require_memory(node, (x.shape[0], w.shape[0], *out), wide.dtype)
        base = np.meshgrid(
            *(np.arange(axis.kernel) * axis.dilation - axis.pad_begin for axis in axes),
            *(np.arange(axis.out) * axis.stride for axis in axes),
            indexing="ij",
        )
        starts = [base[axis] + base[rank + axis] for axis in range(rank)]  # each [*kernel, *out]
        taps = starts[0].size
        shifts = widened(offset).reshape(x.shape[0], offset_groups, -1, rank, *out)
        per_group = x.shape[1] // offset_groups
        y = np.empty((x.shape[0], group, w.shape[0] // group, int(np.prod(out))), wide.dtype)
        for n, image in enumerate(wide):
            columns = np.empty((offset_groups, per_group, taps), wide.dtype)
            for g, channels in enumerate(image.reshape(offset_groups, per_group, *x.shape[2:])):
                places = [
                    (starts[axis].reshape(-1, *out) + shifts[n, g, :, axis]).reshape(-1)
                    for axis in range(rank)
                ]
                neighbours = [linear_neighbours(place.astype(wide.dtype)) for place in places]
                columns[g] = gather(channels, neighbours, zero_outside)
                if mask is not None:
                    columns[g] *= widened(mask)[n].reshape(offset_groups, -1)[g]
            matrix = weights.reshape(group, w.shape[0] // group, -1)
            np.matmul(matrix, columns.reshape(group, matrix.shape[2], -1), out=y[n])
        result = y.reshape(x.shape[0], w.shape[0], *out)
        if b is not None:
            result += widened(b).reshape(-1, *(1,) * rank)
        return result.astype(x.dtype, copy=False)

    return Kernel(run)
