"""A gate and what it lets through that take turns in one row, 16 columns each: a product that was not gated yet.

x   [ gate 0..15 | up 0..15 | gate 16..31 | up 16..31 | ... ]      y [ function(gate) * up ]
"""

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.blocks.endings import gated_row
from onnxgen.graph.cpu.compiled.kernel import word

PIECE = 512
"""Columns of a row that are one unit of work."""


def gated_tiles(*, function: str) -> Callable[[int, int, int, int, int], None]:
    """``y = function(gate) * up``, with the bits of a product that gates by itself.

    Words:

    1       rows: index of the header's word that counts them
    2       width of y
    3, 4    x: float32 rows, floats between them
    5, 6    y: likewise
    """
    gate = gated_row(function)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width = word(row, 2)
        pieces = (width + PIECE - 1) // PIECE
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * PIECE
            x = word(row, 3) + 4 * (r * word(row, 4) + 2 * first)
            y = word(row, 5) + 4 * (r * word(row, 6) + first)
            gate(x, y, 0, min(PIECE, width - first), 0)

    return kernel
