"""Elements written at given places: Scatter, ScatterElements and ScatterND."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_axis, checked_indices, copy_into
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_REDUCTIONS: dict[str, Callable[[np.ndarray, Any, np.ndarray], None]] = {
    "none": lambda y, places, updates: y.__setitem__(places, updates),
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


@TABLE.operator("Scatter", 9, 11)
@TABLE.operator("ScatterElements", 11, 13, 16, 18)
def scatter_elements(node: NodeSpec) -> Kernel:
    """One update for each index: its position on ``axis``; on the other axes the index's own place."""
    axis = node.attr("axis", 0)

    def places(data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> tuple[np.ndarray, ...]:
        at = checked_axis(node, axis, data.ndim)
        fits = indices.ndim == data.ndim and all(
            n <= size for i, (n, size) in enumerate(zip(indices.shape, data.shape, strict=True)) if i != at
        )
        if not fits or updates.shape != indices.shape:
            raise KernelError(
                f"{node}: indices {indices.shape} and updates {updates.shape} do not fit data {data.shape}"
            )
        grid: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
        grid[at] = checked_indices(node, indices, data.shape[at])
        return tuple(grid)

    return _scatter_kernel(node, places)


@TABLE.operator("ScatterND", 11, 13, 16, 18)
def scatter_nd(node: NodeSpec) -> Kernel:
    """One slice for each index tuple, which are the last axis of the indices."""

    def places(data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> tuple[np.ndarray, ...]:
        depth = indices.shape[-1] if indices.ndim else 0
        if not 1 <= depth <= data.ndim or updates.shape != indices.shape[:-1] + data.shape[depth:]:
            raise KernelError(
                f"{node}: indices {indices.shape} and updates {updates.shape} do not fit data {data.shape}"
            )
        return tuple(checked_indices(node, indices[..., i], data.shape[i]) for i in range(depth))

    return _scatter_kernel(node, places)


def _scatter_kernel(node: NodeSpec, places: Callable[..., tuple[np.ndarray, ...]]) -> Kernel:
    reduction = node.attr("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise InvalidGraphError(f"{node}: reduction {reduction!r} is none of {', '.join(_REDUCTIONS)}")
    reduce = _REDUCTIONS[reduction]

    def into(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, y: np.ndarray) -> None:
        where = places(data, indices, updates)
        copy_into(y, data)
        reduce(y, where, updates)

    def run(data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        y = np.empty(data.shape, data.dtype)
        into(data, indices, updates, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))
