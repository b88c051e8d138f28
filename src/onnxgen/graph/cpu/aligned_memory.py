"""Memory for kernels: on cache lines, and on huge pages where the system has them (worth a fifth of the bandwidth)."""

from __future__ import annotations

import mmap
import sys

import numpy as np

LINE_BYTES = 64
HUGE_PAGE_BYTES = 2 << 20


def aligned(num_bytes: int) -> np.ndarray:
    """Zeros, uint8 ``[num_bytes]``, from the beginning of a cache line, or of a huge page where they fill one."""
    if num_bytes < HUGE_PAGE_BYTES:
        memory, alignment = np.zeros(num_bytes + LINE_BYTES, np.uint8), LINE_BYTES
    else:
        # Pages that nobody touches cost nothing, so neither does the room to align in.
        mapped, alignment = _mapped(num_bytes + HUGE_PAGE_BYTES), HUGE_PAGE_BYTES
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapped.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(mapped, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + num_bytes]


class Arena:
    """Memory for many arrays that are kept, side by side on huge pages however small each is.

    Args:
        piece_bytes: What is asked of the system at once; only what is used of it takes memory.
    """

    def __init__(self, piece_bytes: int = 64 << 20) -> None:
        self._piece_bytes = piece_bytes
        self._free = np.empty(0, np.uint8)

    def allocate(self, num_bytes: int) -> np.ndarray:
        """Zeros, uint8 ``[num_bytes]``, from the beginning of a cache line; they live as long as the array does."""
        room = -(-num_bytes // LINE_BYTES) * LINE_BYTES
        if room > self._free.size:
            self._free = aligned(max(room, self._piece_bytes))
        memory, self._free = self._free[:num_bytes], self._free[room:]
        return memory


def _mapped(num_bytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, num_bytes)
    # Python would share the pages with children by default, and shared pages are never huge.
    return mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
