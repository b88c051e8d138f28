"""The step kernel that finds what followed where the end of a sequence has occurred before."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.kernel import ints64, word


def suffixes() -> Callable[[int, int, int, int, int], None]:
    """What followed earlier occurrences of a sequence's last tokens, and how many tokens are the same before it.

    The lengths of common suffixes are the Z-function of the reversed sequence, whose time is linear: a match that lies in a
    longer one found before is not compared again.

    Words:

        1       tokens: int64 [size]
        2       size, at least 1
        3       least: the shortest match that counts
        4       lengths: int64 [size], to work with
        5       followers: int64 [size]
        6       matched: int64 [size]
        7       found: int64 [1], how many there are
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        size, least = word(row, 2), word(row, 3)
        tokens, lengths = ints64(word(row, 1), size), ints64(word(row, 4), size)
        followers, matched = ints64(word(row, 5), size), ints64(word(row, 6), size)
        last = size - 1
        # Places count from the last token backwards; start and end are those of the match that reaches furthest.
        number = start = end = 0
        for place in range(1, size):
            length = 0
            if place < end:
                length = min(end - place, lengths[place - start])
            while place + length < size and tokens[last - length] == tokens[last - place - length]:
                length += 1
            lengths[place] = length
            if place + length > end:
                start, end = place, place + length
            if length >= least:
                followers[number] = tokens[last - place + 1]
                matched[number] = length
                number += 1
        ints64(word(row, 7), 1)[0] = number

    return kernel
