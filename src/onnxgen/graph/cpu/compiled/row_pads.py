"""Heads of a row made wider with zeros, or narrower again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import floats, word


def pad_pieces() -> Callable[[int, int, int, int, int], None]:
    """``y[piece] = x[piece]``, with zeros behind it or without its end.

    Words:

    1, 2    rows: index of the header's word that counts them; pieces of a row
    3, 4    x: float32 rows, floats between them
    5       floats of a piece of x
    6, 7    y: likewise
    8       floats of a piece of y
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        pieces, width, padded = word(row, 2), word(row, 5), word(row, 8)
        kept = min(width, padded)
        rows = word(step, word(row, 1))
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            x = floats(word(row, 3) + 4 * r * word(row, 4), pieces * width)
            y = floats(word(row, 6) + 4 * r * word(row, 7), pieces * padded)
            for piece in range(pieces):
                for i in range(kept):
                    y[piece * padded + i] = x[piece * width + i]
                for i in range(kept, padded):
                    y[piece * padded + i] = np.float32(0)

    return kernel
