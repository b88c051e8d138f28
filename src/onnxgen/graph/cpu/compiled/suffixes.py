"""The step kernel that finds where the end of a sequence has occurred before, and how much of it."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.kernel import ints64, word


def suffixes() -> Callable[[int, int, int, int, int], None]:
    """For each place the longest common suffix of what ends there and of the whole.

    It is the Z-function of the reversed sequence, whose time is linear: a match that lies in a longer one found
    before is not compared again.

    Words:

        1       tokens: int64 [size]
        2       size
        3       lengths: int64 [size]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        size = word(row, 2)
        tokens, lengths = ints64(word(row, 1), size), ints64(word(row, 3), size)
        last = size - 1
        start = end = 0  # of the match that reaches furthest; places count from the last token backwards
        for place in range(1, size):
            length = 0
            if place < end:
                length = min(end - place, lengths[last - (place - start)])
            while place + length < size and tokens[last - length] == tokens[last - place - length]:
                length += 1
            lengths[last - place] = length
            if place + length > end:
                start, end = place, place + length
        if size > 0:
            lengths[last] = size

    return kernel
