"""The step kernel that puts the best of a row's tokens first, by a binary heap: ties fall as they do in the C++ library.

Sorting the first ``k`` of ``n`` elements with a heap is one algorithm everywhere (Williams, "Algorithm 232: Heapsort", with
Floyd's descent to a leaf and back), but which of equal elements comes first depends on each comparison. This one makes those
of ``std::partial_sort`` in GNU's library, so that whoever samples with that library gets the same tokens.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import floats, ints32, word


def put_best_first() -> Callable[[int, int, int, int, int], None]:
    """Sort the places ``first`` to ``last`` of an order, so that they hold the best of all from ``first`` on, best first.

    Words:

        1       x: float32 [width]
        2       width
        3       order: int32 [width], ids in any order
        4, 5    first, last
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, first, last = word(row, 2), word(row, 4), word(row, 5)
        x = floats(word(row, 1), width)
        heap = ints32(word(row, 3) + 4 * first, width - first)
        _select(x, heap, last - first, width - first)
        _unwind(x, heap, last - first)

    return kernel


@leaf
def _select(x: Any, heap: Any, size: int, count: int) -> None:
    """Make the first ``size`` of ``count`` ids a heap of the best ones, the worst of them at its top."""
    for parent in range(size // 2 - 1, -1, -1):
        _place(x, heap, parent, size, heap[parent])
    worst = x[heap[0]]
    for i in range(size, count):
        better = heap[i]
        if x[better] > worst:
            heap[i] = heap[0]
            _place(x, heap, 0, size, better)
            worst = x[heap[0]]


@leaf
def _unwind(x: Any, heap: Any, size: int) -> None:
    """Sort a heap: take its top, the worst, to the end, again and again."""
    for end in range(size - 1, 0, -1):
        moved = heap[end]
        heap[end] = heap[0]
        _place(x, heap, 0, end, moved)


@leaf
def _place(x: Any, heap: Any, top: int, size: int, moved: int) -> None:
    """Fill the place ``top``, both of whose children are heaps, with ``moved``, and keep the order.

    The gap sinks to a leaf, always to the worse child (of equal ones the second); from there ``moved`` rises again.
    """
    gap = top
    while 2 * gap + 2 < size:
        child = 2 * gap + 2
        if x[heap[child]] > x[heap[child - 1]]:
            child -= 1
        heap[gap] = heap[child]
        gap = child
    if 2 * gap + 2 == size:
        heap[gap] = heap[2 * gap + 1]
        gap = 2 * gap + 1
    value = x[moved]
    while gap > top:
        parent = (gap - 1) // 2
        if not x[heap[parent]] > value:
            break
        heap[gap] = heap[parent]
        gap = parent
    heap[gap] = moved
