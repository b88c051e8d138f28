"""The most arithmetic that some threads of this machine can do: what products are measured against."""

from __future__ import annotations

import time

import numpy as np

from onnxgen.graph.cpu.isa import host_isa
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.running import run_kernel

_ROUNDS = 1 << 18
_TRIES = 7
_INSTRUCTIONS = 12  # of a round, as in `compiled.peaks`
_BYTE_OPERATIONS = 16 * 4 * 2
_FLOAT_OPERATIONS = 16 * 2


def measure_integer_peak(threads: int) -> float:
    """Operations per second on bytes, in registers; a multiplication and an addition are two."""
    return _measure(threads, integers=True) * _BYTE_OPERATIONS


def measure_float_peak(threads: int) -> float:
    """Operations per second on float32, in registers; a multiplication and an addition are two."""
    return _measure(threads, integers=False) * _FLOAT_OPERATIONS


def _measure(threads: int, *, integers: bool) -> float:
    """Instructions on 16 lanes per second, the best of some tries."""
    kernel = step_kernel("peaks:peak", ("rounds", "results"), integers=integers, isa=host_isa())
    results = np.zeros(threads, np.int64)
    best_s = float("inf")
    for _ in range(_TRIES):
        started = time.perf_counter()
        run_kernel(kernel, parts=threads, threads=threads, rounds=_ROUNDS, results=results.ctypes.data)
        best_s = min(best_s, time.perf_counter() - started)
    return threads * _ROUNDS * _INSTRUCTIONS / best_s
