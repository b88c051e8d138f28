"""The same elements more often: Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, integers, scalar
from onnxgen.graph.cpu.memory import require_memory
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
        ranks = zip_longest(reversed(x.shape), reversed(wanted), fillvalue=1)
        if min(wanted, default=0) < 0 or any(n != m and 1 not in (n, m) for n, m in ranks):
            raise KernelError(f"{node}: shapes {x.shape} and {wanted} do not broadcast")
        require_memory(node, wanted, x.dtype)  # the view takes none, but whatever reads it would
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, wanted))

    return view_kernel(run)


@TABLE.operator("Tile", 1)
def tile_one_axis(node: NodeSpec) -> Kernel:
    """``tiles`` copies along ``axis``, both inputs of one element."""

    def run(x: np.ndarray, tiles: np.ndarray, axis: np.ndarray) -> np.ndarray:
        repeats = [1] * x.ndim
        repeats[checked_axis(node, int(scalar(node, axis, "axis")), x.ndim)] = int(
            scalar(node, tiles, "tiles")
        )
        return _tiled(node, x, repeats)

    return Kernel(run)


@TABLE.operator("Tile", 6, 13)
def tile(node: NodeSpec) -> Kernel:
    """As many copies along each axis as the second input says."""

    def run(x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
        return _tiled(node, x, integers(repeats))

    def into(x: np.ndarray, repeats: np.ndarray, y: np.ndarray) -> None:
        _tile_into(x, integers(repeats), y)

    return Kernel(run, into)


def _tiled(node: NodeSpec, x: np.ndarray, repeats: Sequence[int]) -> np.ndarray:
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise KernelError(f"{node}: repeats {list(repeats)} do not fit an input of shape {x.shape}")
    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    require_memory(node, shape, x.dtype)
    y = np.empty(shape, x.dtype)
    _tile_into(x, repeats, y)
    return y


def _tile_into(x: np.ndarray, repeats: Sequence[int], y: np.ndarray) -> None:
    pairs = [size for r, n in zip(repeats, x.shape, strict=True) for size in (r, n)]
    ones = [size for n in x.shape for size in (1, n)]
    y.reshape(pairs)[...] = x.reshape(ones)
