"""Rows of float32 as they are kept: the way back of `widening`."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.function import inline, leaf
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats, ints8, ints32, words16
from onnxgen.graph.cpu.compiled.lane_floats import load, store
from onnxgen.graph.cpu.compiled.primitives import half_bits
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.widening import BFLOAT, FLOAT, HALF, INT8

_VECTOR_BYTES = 4 * LANES


@leaf
def narrow_row(kind: int, source: int, width: int, scale: int, target: int) -> None:
    """Write ``width`` float32 as they are kept.

    Args:
        kind: How, as `widening` counts.
        source: Address of the float32.
        width: How many.
        scale: Address of as many float32 that whole numbers are quotients by.
        target: Where to.
    """
    values = floats(source, width)
    if kind == FLOAT:
        whole = width // LANES * LANES
        for at in range(0, 4 * whole, _VECTOR_BYTES):
            store(target + at, load(source + at))
        result = floats(target, width)
        for i in range(whole, width):
            result[i] = values[i]
    elif kind == HALF:
        halves = words16(target, width)
        for i in range(width):
            halves[i] = half_bits(values[i])
    elif kind == BFLOAT:
        upper, bits = words16(target, width), ints32(source, width)
        for i in range(width):
            upper[i] = _upper_half(bits[i])
    elif kind == INT8:
        whole_numbers, scales = ints8(target, width), floats(scale, width)
        for i in range(width):
            whole_numbers[i] = np.int8(_rounded(values[i] / scales[i], 127))
    else:
        pairs, scales = bytes8(target, (width + 1) // 2), floats(scale, width)
        for i in range(len(pairs)):
            low = _rounded(values[2 * i] / scales[2 * i], 7) + 8
            high = 8
            if 2 * i + 1 < width:
                high = _rounded(values[2 * i + 1] / scales[2 * i + 1], 7) + 8
            pairs[i] = np.uint8(low | high << 4)


@inline
def _upper_half(bits: Any) -> Any:
    """The bits of the bfloat16 nearest to a float32, to even where two are; NaN stays one."""
    unsigned = np.int64(bits) & 0xFFFFFFFF
    if unsigned & 0x7FFFFFFF > 0x7F800000:
        return np.uint16(unsigned >> 16 | 0x40)
    return np.uint16(unsigned + 0x7FFF + (unsigned >> 16 & 1) >> 16)


@inline
def _rounded(x: Any, most: int) -> Any:
    """The nearest whole number from ``-most - 1`` to ``most``."""
    return np.int64(np.rint(max(min(x, np.float32(most)), np.float32(-most - 1))))
