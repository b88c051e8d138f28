"""`put_best_first`: sorting the best few of a row's tokens with ties as ``std::partial_sort`` leaves them."""

from __future__ import annotations

from functools import cache

import numpy as np

from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls


def prepare_heap_order() -> None:
    """Load the code, or compile it where this machine has none yet: some seconds, once."""
    default_store().prepare([_kernel()])
    _calls()


def put_best_first(row: np.ndarray, order: np.ndarray, *, first: int, last: int) -> None:
    """Sort ``order[first:last]``, in place, so that it holds the best ids of ``order[first:]``, best first.

    Does what ``std::partial_sort`` of GNU's C++ library does to ``order + first``, ``order + last`` and its end with the
    comparison ``row[a] > row[b]``, also where tokens are equal.

    Args:
        row: Logits without NaN, float32 ``[vocab]``, contiguous.
        order: int32 ``[vocab]``, contiguous: every id once.
        first: Where to begin.
        last: Where to end, above ``first`` and at most the vocabulary.
    """
    assert row.dtype == np.float32 and order.dtype == np.int32 and row.shape == order.shape
    assert row.flags.c_contiguous and order.flags.c_contiguous and 0 <= first < last <= len(row)
    _calls().run([(row.ctypes.data, len(row), order.ctypes.data, first, last)], [1], seconds=0)


@cache
def _calls() -> NodeCalls:
    return NodeCalls(_kernel())


def _kernel() -> StepKernel:
    return step_kernel("heap_order:put_best_first", ("x", "width", "order", "first", "last"))
