"""Arrays that are handed out again once nobody holds them.

An array of a row of logits is larger than what the allocator keeps to itself: made anew at every step, its
pages are taken from the operating system, faulted in, and given back while other threads run, which costs a
decode step of a small model 5 to 8 %.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]


class ReusedArrays:
    """Makes float32 arrays, and reuses those that were dropped, views of them included.

    Args:
        keep: How many arrays to hold on to.
    """

    def __init__(self, keep: int = 3) -> None:
        self._keep = keep
        self._arrays: list[Float32Array] = []

    def take(self, shape: tuple[int, ...]) -> Float32Array:
        """An array of ``shape`` with any content, that nobody else holds."""
        for array in self._arrays:
            if array.shape == shape and sys.getrefcount(array) == _HELD_BY_US_ALONE:
                return array
        made = np.empty(shape, np.float32)
        self._arrays.append(made)
        del self._arrays[: -self._keep]
        return made


def _references_to_a_dropped_array() -> int:
    """What `sys.getrefcount` says in `ReusedArrays.take` of an array that only its list holds."""
    arrays = [np.empty(1, np.float32)]
    for array in arrays:
        return sys.getrefcount(array)
    raise AssertionError


_HELD_BY_US_ALONE = _references_to_a_dropped_array()
