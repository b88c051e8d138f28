"""Which arrays lie in memory of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def same_memory(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether both are the same elements, side by side."""
    return (
        x.shape == y.shape
        and x.dtype == y.dtype
        and x.flags.c_contiguous
        and y.flags.c_contiguous
        and x.__array_interface__["data"][0] == y.__array_interface__["data"][0]
    )


def apart(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[bool]:
    """For each of ``arrays`` whether no other array, of these or of ``others``, reaches into its range of addresses.

    Costs n log n: a model with a cache has more than a hundred inputs and outputs.
    """
    alone = [True] * (len(arrays) + len(others))
    end, owner = 0, 0
    for first, last, index in sorted(_spans([*arrays, *others])):
        if first < end:
            alone[index] = alone[owner] = False
        if last > end:
            end, owner = last, index
    return alone[: len(arrays)]


def _spans(arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, int, int]]:
    """First byte, end and index of each array that has elements."""
    for index, array in enumerate(arrays):
        if array.size == 0:
            continue
        first = array.__array_interface__["data"][0]
        if array.flags.c_contiguous:
            yield first, first + array.nbytes, index
        else:
            reaches = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
            low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches)
            yield first + low, first + high + array.itemsize, index
