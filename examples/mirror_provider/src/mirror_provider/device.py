"""The device: memory that is not the host's."""

from __future__ import annotations

import numpy as np


class MirrorValue:
    """An array on the device, where elements lie in the opposite order.

    Nothing of NumPy works on it: values get here and back only by `to_device` and `to_host`.
    """

    __slots__ = ("_elements", "shape")

    def __init__(self, elements: np.ndarray, shape: tuple[int, ...]) -> None:
        self._elements = elements
        self.shape = shape

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self._elements.dtype

    def __repr__(self) -> str:
        return f"MirrorValue(shape={self.shape}, dtype={self.dtype})"


def to_device(array: np.ndarray) -> MirrorValue:
    """Copy an array to the device."""
    return MirrorValue(array.reshape(-1)[::-1].copy(), array.shape)


def to_host(value: MirrorValue) -> np.ndarray:
    """Copy a value to the host."""
    return value._elements[::-1].copy().reshape(value.shape)


def launch(function: np.ufunc, *values: MirrorValue) -> MirrorValue:
    """Run an elementwise function on the device: here, on the elements as they lie, where shapes are equal."""
    first = values[0]
    if all(value.shape == first.shape for value in values):
        return MirrorValue(function(*(value._elements for value in values)), first.shape)
    return to_device(np.asarray(function(*map(to_host, values))))
