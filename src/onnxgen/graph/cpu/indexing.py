"""Axes and indices that a model gives, checked; and arrays of every element type, strings included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.ep.node import NodeSpec


def checked_axis(node: NodeSpec, axis: int, rank: int) -> int:
    """The axis counted from the front.

    Raises:
        KernelError: when it is not in ``[-rank, rank)``.
    """
    if not -rank <= axis < rank:
        raise KernelError(f"{node}: axis {axis} is outside [{-rank}, {rank}) for rank {rank}")
    return axis + rank if axis < 0 else axis


def checked_axes(node: NodeSpec, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, in the order given.

    Raises:
        KernelError: when one is out of range or given twice.
    """
    found = tuple(checked_axis(node, int(axis), rank) for axis in axes)
    if len(set(found)) != len(found):
        raise KernelError(f"{node}: axes {found} name an axis twice; name each once")
    return found


def checked_indices(node: NodeSpec, indices: np.ndarray, size: int, *, from_end: bool = True) -> np.ndarray:
    """Integer indices counted from the front of an axis of that size.

    Args:
        node: For messages.
        indices: Any shape.
        size: Of the axis.
        from_end: Whether negative ones count from its end; otherwise they are out of range, too.

    Raises:
        KernelError: when one is not in ``[-size, size)``, or ``[0, size)``.
    """
    if not indices.size:
        return indices
    low, high = int(indices.min()), int(indices.max())
    least = -size if from_end else 0
    if low < least or high >= size:
        bad = high if high >= size else low
        raise KernelError(f"{node}: index {bad} is outside [{least}, {size}) on an axis of {size} elements")
    return np.asarray(np.where(indices < 0, indices + size, indices)) if low < 0 else indices


def checked_bounds(node: NodeSpec, offsets: np.ndarray, tokens: int) -> list[int]:
    """Where sequences that are packed one after the other begin, and where the last one ends.

    Raises:
        KernelError: when they do not begin at 0, end at ``tokens`` and never go back.
    """
    bounds = integers(offsets)
    if not bounds or bounds[0] != 0 or bounds[-1] != tokens or bounds != sorted(bounds):
        raise KernelError(f"{node}: cumulative lengths {bounds} do not divide {tokens} tokens")
    return bounds


def integers(values: np.ndarray) -> list[int]:
    """The elements of an integer array of any shape, as Python has them."""
    return values.reshape(-1).tolist()


def scalar(node: NodeSpec, value: np.ndarray, what: str) -> Any:
    """The only element of an array of one element, as Python has it.

    Raises:
        KernelError: when it has another number of elements.
    """
    if value.size != 1:
        raise KernelError(f"{node}: {what} needs one element, its shape is {value.shape}")
    return value.reshape(-1)[0].item() if value.dtype != object else value.reshape(-1)[0]


def zero_of(dtype: np.dtype) -> Any:
    """What stands for nothing in arrays of that type: 0, False, or the empty string."""
    return "" if dtype == object else dtype.type(0)


def filled(shape: tuple[int, ...], dtype: np.dtype, value: Any = None) -> np.ndarray:
    """An array of one value; `zero_of` its type where none is given."""
    return np.full(shape, zero_of(dtype) if value is None else value, dtype)


def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """Copy, unless both are the same memory (a kernel that runs in place)."""
    same = target.ctypes.data == source.ctypes.data and target.strides == source.strides
    if not same:
        np.copyto(target, source)
