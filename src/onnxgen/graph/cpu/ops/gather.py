"""Elements chosen by index or condition: Gather, GatherElements, GatherND, Compress, NonZero."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, checked_indices
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Gather", 1, 11, 13)
def gather(node: NodeSpec) -> Kernel:
    """Slices of an axis, at the indices."""
    axis = node.attr("axis", 0)

    def into(x: np.ndarray, indices: np.ndarray, y: np.ndarray) -> None:
        at = checked_axis(node, axis, x.ndim)
        # Checked before: "clip" only spares NumPy the copy that its own check makes.
        np.take(x, checked_indices(node, indices, x.shape[at]), axis=at, mode="clip", out=y)

    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        at = checked_axis(node, axis, x.ndim)
        y = np.empty(x.shape[:at] + indices.shape + x.shape[at + 1 :], x.dtype)
        np.take(x, checked_indices(node, indices, x.shape[at]), axis=at, mode="clip", out=y)
        return y

    return Kernel(run, into)


@TABLE.operator("GatherElements", 11, 13)
def gather_elements(node: NodeSpec) -> Kernel:
    """One element for each index: its position on ``axis``; on the other axes the index's own place."""
    axis = node.attr("axis", 0)

    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        at = checked_axis(node, axis, x.ndim)
        fits = indices.ndim == x.ndim and all(
            n <= size for i, (n, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != at
        )
        if not fits:
            raise KernelError(
                f"{node}: indices {indices.shape} do not fit data {x.shape}: the same rank, and not larger on any axis but {at}"
            )
        source = x[tuple(slice(None) if i == at else slice(n) for i, n in enumerate(indices.shape))]
        return np.take_along_axis(
            source, checked_indices(node, indices, x.shape[at]).astype(np.int64), axis=at
        )

    return Kernel(run)


@TABLE.operator("GatherND", 11, 12, 13)
@TABLE.operator("GatherND", 1, domain=MICROSOFT)
def gather_nd(node: NodeSpec) -> Kernel:
    """Slices at index tuples, which are the last axis of the indices."""
    batch_dims = node.attr("batch_dims", 0)

    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        depth = indices.shape[-1] if indices.ndim else 0
        if not 1 <= depth <= x.ndim - batch_dims or indices.shape[:batch_dims] != x.shape[:batch_dims]:
            raise KernelError(
                f"{node}: indices {indices.shape} do not fit data {x.shape} with {batch_dims} batch dimensions"
            )
        places = indices.reshape(indices.shape[:-1] + (1,) * (indices.ndim == 1) + (depth,))
        grid = np.ogrid[tuple(slice(n) for n in places.shape[:-1])][:batch_dims]
        chosen = tuple(checked_indices(node, places[..., i], x.shape[batch_dims + i]) for i in range(depth))
        return x[(*grid, *chosen)].reshape(indices.shape[:-1] + x.shape[batch_dims + depth :])

    return Kernel(run)


@TABLE.operator("Compress", 9, 11, 28)
def compress(node: NodeSpec) -> Kernel:
    """Slices of an axis (elements of the flattened input without one) where the condition is true."""
    axis = node.attr("axis")

    def run(x: np.ndarray, condition: np.ndarray) -> np.ndarray:
        source = x.reshape(-1) if axis is None else x
        at = 0 if axis is None else checked_axis(node, axis, x.ndim)
        if condition.ndim != 1 or len(condition) > source.shape[at]:
            raise KernelError(
                f"{node}: a condition of shape {condition.shape} does not fit {source.shape[at]} elements on its axis"
            )
        return np.take(source, np.flatnonzero(condition), axis=at)

    return Kernel(run)


@TABLE.operator("NonZero", 9, 13)
def non_zero(node: NodeSpec) -> Kernel:
    """Where elements are not zero: a column of positions for each, in row-major order."""

    def run(x: np.ndarray) -> np.ndarray:
        if not x.ndim:
            return np.empty((0, int(bool(x))), np.int64)
        return np.array(np.nonzero(x), np.int64)

    return Kernel(run)
