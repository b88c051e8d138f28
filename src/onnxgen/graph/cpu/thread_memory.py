"""`ThreadMemory`: an array of each thread that calls of a kernel work in, one after the other.

Made anew at every call, an array of some 100,000 bytes costs more than what is done in it: its pages are taken from the
operating system, faulted in, and given back.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt


class ThreadMemory(threading.local):
    """int64 memory that grows when it must; a new thread begins with none."""

    _held = np.zeros(0, np.int64)

    def take(self, size: int) -> npt.NDArray[np.int64]:
        """int64 ``[size]``: what the calling thread left there, zeros at first and where it grew."""
        if self._held.size < size:
            self._held = np.concatenate([self._held, np.zeros(2 * size - self._held.size, np.int64)])
        return self._held[:size]
