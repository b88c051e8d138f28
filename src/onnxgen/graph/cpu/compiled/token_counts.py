"""The step kernel that counts the distinct tokens of a sequence."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.kernel import ints64, word


def token_counts() -> Callable[[int, int, int, int, int], None]:
    """Each distinct token in the order in which it first occurs, and how often it does.

    Words:

        1       tokens: int64 [size]
        2       size
        3       places: int64 [vocab], all 0, and so again afterwards
        4       vocab
        5       distinct: int64 [size]
        6       counts: int64 [size]
        7       found: int64 [1], how many there are; -1 if a token is outside the vocabulary
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        size, vocab = word(row, 2), word(row, 4)
        tokens, places = ints64(word(row, 1), size), ints64(word(row, 3), vocab)
        distinct, counts, found = (
            ints64(word(row, 5), size),
            ints64(word(row, 6), size),
            ints64(word(row, 7), 1),
        )
        number = 0
        inside = True
        for i in range(size):
            token = tokens[i]
            if token < 0 or token >= vocab:
                inside = False
                break
            place = places[token]
            if place == 0:
                distinct[number] = token
                counts[number] = 1
                number += 1
                places[token] = number
            else:
                counts[place - 1] += 1
        for i in range(number):
            places[distinct[i]] = 0
        found[0] = number if inside else -1

    return kernel
