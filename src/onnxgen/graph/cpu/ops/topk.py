"""Elements by rank and by difference: TopK and Unique."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, scalar
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("TopK", 1)
def top_k_by_attribute(node: NodeSpec) -> Kernel:
    """The ``k`` largest of an axis, largest first."""
    k, axis = node.attr("k"), node.attr("axis", -1)

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _top_k(node, x, k, axis, largest=True)

    return Kernel(run)


@TABLE.operator("TopK", 10, 11, 24)
def top_k(node: NodeSpec) -> Kernel:
    """The largest or smallest of an axis, in order also where any order is allowed; of equals the first comes first."""
    axis, largest = node.attr("axis", -1), bool(node.attr("largest", 1))

    def run(x: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _top_k(node, x, scalar(node, k, "k"), axis, largest=largest)

    return Kernel(run)


def _top_k(
    node: NodeSpec, x: np.ndarray, k: int, axis: int, *, largest: bool
) -> tuple[np.ndarray, np.ndarray]:
    at = checked_axis(node, axis, x.ndim)
    size = x.shape[at]
    if not 0 <= k <= size:
        raise KernelError(f"{node}: asked for {k} elements of an axis of {size}")
    rows = np.moveaxis(x, at, -1)
    if largest:
        # Backwards twice: a stable ascending sort then has the first of equals in front.
        order = size - 1 - np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    else:
        order = np.argsort(rows, axis=-1, kind="stable")
    order = order[..., :k]
    values = np.take_along_axis(rows, order, axis=-1)
    return np.ascontiguousarray(np.moveaxis(values, -1, at)), np.moveaxis(order, -1, at).astype(np.int64)


@TABLE.operator("Unique", 11, 28)
def unique(node: NodeSpec) -> Kernel:
    """Different elements, or slices along ``axis``, ascending or in the order of their first occurrence."""
    axis, ordered = node.attr("axis"), bool(node.attr("sorted", 1))

    def run(x: np.ndarray) -> Any:
        at = None if axis is None else checked_axis(node, axis, x.ndim)
        source = x.reshape(-1) if at is None else x
        first, inverse, counts = _unique_elements(source) if at is None else _unique_slices(source, at)
        if not ordered:
            order = np.argsort(first, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            first, inverse, counts = first[order], place[inverse], counts[order]
        values = np.take(source, first, axis=at or 0)
        found = (values, *(part.astype(np.int64) for part in (first, inverse, counts)))
        return found[: len(node.outputs)] if len(node.outputs) > 1 else values

    return Kernel(run)


def _unique_elements(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return first, inverse.reshape(-1), counts


def _unique_slices(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_unique_elements`, for slices, which are ordered by their elements in row-major order."""
    rows = [tuple(row) for row in np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1).tolist()]
    different = {row: place for place, row in enumerate(sorted(set(rows)))}
    inverse = np.array([different[row] for row in rows], np.int64)
    _, first, counts = np.unique(inverse, return_index=True, return_counts=True)
    return first, inverse, counts
