"""The distinct tokens of a sequence and how often each occurs, compiled: without sorting, in linear time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls
from onnxgen.graph.cpu.thread_memory import ThreadMemory


def token_counts(
    tokens: npt.NDArray[np.integer[Any]], *, vocab_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct tokens, in the order in which they first occur, and how often each does.

    Args:
        tokens: ``[size]``.
        vocab_size: They are below.

    Returns:
        int64 ``[distinct]`` both.

    Raises:
        IndexError: A token is outside the vocabulary.
    """
    held = np.ascontiguousarray(tokens, np.int64)
    size = held.size
    places, memory = _places().take(vocab_size), _memory().take(2 * size + 1)
    start = memory.ctypes.data
    addresses = (places.ctypes.data, vocab_size, start, start + 8 * size, start + 16 * size)
    _count().run([(held.ctypes.data, size, *addresses)], [1], seconds=0)
    number = int(memory[2 * size])
    if number < 0:
        raise IndexError(f"a token of {size} is outside the vocabulary of {vocab_size}")
    return memory[:number].copy(), memory[size : size + number].copy()


@cache
def _places() -> ThreadMemory:
    """Zeros; each call leaves them as it finds them."""
    return ThreadMemory()


@cache
def _memory() -> ThreadMemory:
    return ThreadMemory()


@cache
def _count() -> NodeCalls:
    return NodeCalls(token_counts_kernel())


def token_counts_kernel() -> StepKernel:
    """The kernel behind this module."""
    arguments = ("tokens", "size", "places", "vocab", "distinct", "counts", "found")
    return step_kernel("token_counts:token_counts", arguments)
