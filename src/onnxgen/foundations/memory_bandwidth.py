"""How fast this machine reads its main memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

_READS = 5
_MOST_MEGABYTES = 4096


def measure_read_bandwidth(threads: int, *, megabytes: int = 256) -> float:
    """Bytes per second that some threads read from memory together, each its own array; the best of a few times.

    Args:
        threads: Number of threads.
        megabytes: Size of each array, far more than the caches hold; less where all would take more than 4 GiB.
    """
    import numpy as np

    megabytes = max(1, min(megabytes, _MOST_MEGABYTES // threads))

    # the maximum of bytes is the cheapest reduction that NumPy has: memory is what limits it
    arrays = [np.ones(megabytes << 20, np.uint8) for _ in range(threads)]
    best_s = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_READS):
            started = time.perf_counter()
            list(pool.map(np.max, arrays))
            best_s = min(best_s, time.perf_counter() - started)
    return sum(array.nbytes for array in arrays) / best_s
