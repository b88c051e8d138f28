"""Arrays whose address is asked for once: NumPy takes longer to tell it than a small kernel takes to run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Placed:
    """An array and where it lies.

    Attributes:
        array: C-contiguous; kept alive.
        address: Of its first element.
    """

    array: np.ndarray
    address: int


def placed(array: np.ndarray) -> Placed:
    """An array in C order, a copy where it is not, and its address."""
    array = np.ascontiguousarray(array)
    return Placed(array, array.ctypes.data)
