"""What followed where the end of a token sequence has occurred before, compiled: what repetition of any length is found by."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls
from onnxgen.graph.cpu.thread_memory import ThreadMemory


def followers_of_suffixes(
    tokens: npt.NDArray[np.integer[Any]], *, least: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The tokens that followed earlier occurrences of the sequence's end, and how long each occurrence was.

    Takes linear time, some 100 µs for 32,768 tokens.

    Args:
        tokens: ``[size]``.
        least: The shortest occurrence that counts, at least 1; matches may overlap.

    Returns:
        int64 ``[found]`` both, the latest occurrence first.
    """
    if not len(tokens):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    held = np.ascontiguousarray(tokens, np.int64)
    size = held.size
    memory = _memory().take(3 * size + 1)
    followers, matched = memory[size : 2 * size], memory[2 * size : 3 * size]
    start = memory.ctypes.data
    addresses = (start, start + 8 * size, start + 16 * size, start + 24 * size)
    _suffixes().run([(held.ctypes.data, size, least, *addresses)], [1], seconds=0)
    found = memory[3 * size]
    return followers[:found].copy(), matched[:found].copy()


@cache
def _memory() -> ThreadMemory:
    return ThreadMemory()


@cache
def _suffixes() -> NodeCalls:
    return NodeCalls(suffixes_kernel())


def suffixes_kernel() -> StepKernel:
    """The kernel behind this module."""
    return step_kernel(
        "suffixes:suffixes", ("tokens", "size", "least", "lengths", "followers", "matched", "found")
    )
