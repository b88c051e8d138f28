"""The distinct tokens of a sequence and how often each occurs, compiled: without sorting, in linear time."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls


def prepare_token_counts() -> None:
    """Load the code, or compile it where this machine has none yet."""
    default_store().prepare([_kernel()])
    _count()


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
    distinct, counts, found = (
        np.empty(held.size, np.int64),
        np.empty(held.size, np.int64),
        np.empty(1, np.int64),
    )
    places = _places().of(vocab_size)
    addresses = (places.ctypes.data, vocab_size, distinct.ctypes.data, counts.ctypes.data, found.ctypes.data)
    _count().run([(held.ctypes.data, held.size, *addresses)], [1], seconds=0)
    number = int(found[0])
    if number < 0:
        raise IndexError(f"a token of {held.size} is outside the vocabulary of {vocab_size}")
    return distinct[:number], counts[:number]


class _Places(threading.local):
    """Zeros of a thread; a call leaves them as it finds them."""

    held = np.zeros(0, np.int64)

    def of(self, size: int) -> npt.NDArray[np.int64]:
        if self.held.size < size:
            self.held = np.zeros(size, np.int64)
        return self.held


@cache
def _places() -> _Places:
    return _Places()


@cache
def _count() -> NodeCalls:
    return NodeCalls(_kernel())


def _kernel() -> StepKernel:
    arguments = ("tokens", "size", "places", "vocab", "distinct", "counts", "found")
    return step_kernel("token_counts:token_counts", arguments)
