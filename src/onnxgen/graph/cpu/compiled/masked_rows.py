"""A row of logits without the tokens that a bit mask rules out."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import ints32, word
from onnxgen.graph.cpu.compiled.lane_bytes import where_bits
from onnxgen.graph.cpu.compiled.lane_floats import load, load_first, splat, store, store_first
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST = np.float32(-np.inf)
_BITS = 32
"""Of a word of the mask."""


@leaf
def write_masked(x: int, width: int, mask: int, out: int) -> int:
    """Write a row with minus infinity where the mask has a 0; what no bit of a word asks for is not even read.

    Args:
        x: float32 ``[width]``.
        width: Of the row.
        mask: int32 ``[ceil(width / 32)]``; bit ``t % 32`` of word ``t // 32`` is token ``t``'s.
        out: float32 ``[width]``; may be ``x``.

    Returns:
        ``out``.
    """
    words = ints32(mask, (width + _BITS - 1) // _BITS)
    i = 0
    while i + _BITS <= width:
        bits = int(words[i // _BITS])
        if bits == 0:
            store(out + 4 * i, splat(_LOWEST))
            store(out + 4 * i + 64, splat(_LOWEST))
        else:
            low, high = where_bits(load(x + 4 * i), bits), where_bits(load(x + 4 * i + 64), bits >> LANES)
            store(out + 4 * i, low)
            store(out + 4 * i + 64, high)
        i += _BITS
    while i < width:
        bits = int(words[i // _BITS]) >> (i % _BITS)
        store_first(out + 4 * i, width - i, where_bits(load_first(x + 4 * i, width - i, _LOWEST), bits))
        i += LANES
    return out


def mask_row() -> Callable[[int, int, int, int, int], None]:
    """`write_masked` of one row.

    Words:

        1       x: float32 [width]
        2       width
        3       mask: int32 words
        4       out: float32 [width]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        write_masked(word(row, 1), word(row, 2), word(row, 3), word(row, 4))

    return kernel
