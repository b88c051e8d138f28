"""The roofline of this machine."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from onnxgen.foundations.cpu_facts import CpuInfo
from onnxgen.foundations.cpuinfo import default_threads, detect_cpu
from onnxgen.graph.costs.roofline import Roofline

_GHZ = 2.5
"""Assumed clock: systems report anything from the idle to the boost clock, and vector code runs below the latter."""

_LAUNCH_S = 1e-6
"""A kernel call through Python."""

_COPY_BYTES = 16 << 20
_COPIES = 3


@cache
def host_roofline() -> Roofline:
    """What this process can expect of the processor.

    The arithmetic peak is derived (vector width, two fused multiply-adds a cycle and core, an assumed clock of
    2.5 GHz, the threads this process may use); the bandwidth is measured once per process with copies of 16 MiB
    (about 15 ms); the launch time is assumed.
    """
    cpu = detect_cpu()
    threads = default_threads(cpu)
    return Roofline(
        bytes_per_s=_copy_bandwidth(),
        operations_per_s=threads * _GHZ * 1e9 * operations_per_cycle(cpu),
        launch_s=_LAUNCH_S,
    )


def operations_per_cycle(cpu: CpuInfo) -> int:
    """Float32 operations of one core in a cycle: lanes, times two for a multiply-add, times two units."""
    if "avx512f" in cpu.features:
        return 16 * 2 * 2
    if "fma" in cpu.features:
        return 8 * 2 * 2
    if "avx" in cpu.features:
        return 8 * 2  # an addition and a multiplication side by side
    if "neon" in cpu.features or cpu.architecture == "arm64":
        return 4 * 2 * 2
    return 4 * 2 if cpu.architecture == "x86_64" else 4


def _copy_bandwidth() -> float:
    """Bytes a second, read and written together, of the fastest of a few copies of one thread."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.empty(_COPY_BYTES, np.uint8)
    best_s = float("inf")
    for _ in range(_COPIES):
        begin = time.perf_counter()
        np.copyto(target, source)
        best_s = min(best_s, time.perf_counter() - begin)
    return 2 * _COPY_BYTES / max(best_s, 1e-9)
