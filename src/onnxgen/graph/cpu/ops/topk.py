"""Elements by rank and by difference: TopK and Unique."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, scalar
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import is_ml_dtype

TABLE = KernelTable()

_WORTH_SELECTING = 1024
"""Elements from which on it is faster to select first and sort those only."""


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
    rows = np.ascontiguousarray(np.moveaxis(x, at, -1))
    places = _selected(rows, k, largest=largest) if 0 < 2 * k <= size and x.size >= _WORTH_SELECTING else None
    if places is None:
        order = _ranks(rows, largest=largest)[..., :k]
    else:
        ranks = _ranks(np.take_along_axis(rows, places, axis=-1), largest=largest)
        order = np.take_along_axis(places, ranks, axis=-1)
    values = np.take_along_axis(rows, order, axis=-1)
    return np.ascontiguousarray(np.moveaxis(values, -1, at)), np.moveaxis(order, -1, at).astype(np.int64)


def _ranks(rows: np.ndarray, *, largest: bool) -> np.ndarray:
    """Places of the last axis in order of their elements; of equals the first comes first."""
    if not largest:
        return np.argsort(rows, axis=-1, kind="stable")
    # Backwards twice: a stable ascending sort then has the first of equals in front.
    return rows.shape[-1] - 1 - np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def _selected(rows: np.ndarray, k: int, *, largest: bool) -> np.ndarray | None:
    """Places of the ``k`` foremost, ascending; of those that equal the last of them the first.

    None where NaN, which equals nothing, is among them, and for types that NumPy does not partition.
    """
    if is_ml_dtype(rows.dtype):
        return None
    last = rows.shape[-1] - k if largest else k - 1
    parted = np.partition(rows, last, axis=-1)
    if rows.dtype.kind == "f" and np.isnan(parted[..., last:] if largest else parted[..., :k]).any():
        return None
    bound = parted[..., last : last + 1]
    kept = rows >= bound if largest else rows <= bound
    surplus = kept.sum(axis=-1, keepdims=True) - k
    if surplus.any():
        equal = rows == bound
        kept &= ~equal | (np.cumsum(equal, axis=-1) <= equal.sum(axis=-1, keepdims=True) - surplus)
    return np.nonzero(kept)[-1].reshape(*rows.shape[:-1], k)


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
