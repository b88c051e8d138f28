"""The same elements more often: Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, integers, scalar
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.views import view_kernel
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Expand", 8, 13)
def expand(node: NodeSpec) -> Kernel:
    """Broadcast to the shape; dimensions of the input that it has as 1 stay."""

    def run(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        wanted = tuple(integers(shape))
        try:
            return np.broadcast_to(x, np.broadcast_shapes(x.shape, wanted))
        except ValueError as cause:
            raise KernelError(f"{node}: shapes {x.shape} and {wanted} do not broadcast") from cause

    return view_kernel(run)


@TABLE.operator("Tile", 1)
def tile_one_axis(node: NodeSpec) -> Kernel:
    """``tiles`` copies along ``axis``, both inputs of one element."""

    def run(x: np.ndarray, tiles: np.ndarray, axis: np.ndarray) -> np.ndarray:
        repeats = [1] * x.ndim
        repeats[checked_axis(node, int(scalar(node, axis, "axis")), x.ndim)] = int(
            scalar(node, tiles, "tiles")
        )
        return _tiled(x, repeats)

    return Kernel(run)


@TABLE.operator("Tile", 6, 13)
def tile(node: NodeSpec) -> Kernel:
    """As many copies along each axis as the second input says."""

    def repeats_of(x: np.ndarray, repeats: np.ndarray) -> list[int]:
        found = integers(repeats)
        if len(found) != x.ndim or min(found, default=0) < 0:
            raise KernelError(f"{node}: repeats {found} do not fit an input of shape {x.shape}")
        return found

    def run(x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
        return _tiled(x, repeats_of(x, repeats))

    def into(x: np.ndarray, repeats: np.ndarray, y: np.ndarray) -> None:
        _tile_into(x, repeats_of(x, repeats), y)

    return Kernel(run, into)


def _tiled(x: np.ndarray, repeats: Sequence[int]) -> np.ndarray:
    y = np.empty([n * r for n, r in zip(x.shape, repeats, strict=True)], x.dtype)
    _tile_into(x, repeats, y)
    return y


def _tile_into(x: np.ndarray, repeats: Sequence[int], y: np.ndarray) -> None:
    pairs = [size for r, n in zip(repeats, x.shape, strict=True) for size in (r, n)]
    ones = [size for n in x.shape for size in (1, n)]
    y.reshape(pairs)[...] = x.reshape(ones)
