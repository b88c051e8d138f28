"""The step kernel that gives rows of a matrix that is quantized in blocks, as the file has it: ``GatherBlockQuantized``.

codes   uint8 [rows, depth * bits / 8]       elements along the row, the first in the lowest bits
scales  float32 [rows, blocks]
zeros   uint8 [rows, ceil(blocks * bits / 8)]    whole zero points, packed like elements; without them, the middle
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import bytes8, floats, ints64, word


def block_gather(*, bits: int) -> Callable[[int, int, int, int, int], None]:
    """``y[i] = (codes[id] - zero) * scale``; ids below 0 count from the end, those outside give zeros.

    Parts are any split of the ids.

    Words:

        1, 2     ids: int64, and their number
        3, 4     codes, and how many rows they have
        5, 6     scales, and blocks of a row
        7, 8     zeros, or 0; bytes of a row of them
        9, 10    elements of a row, and of a block
        11       y: float32 rows

    Args:
        bits: Of an element: 2, 4 or 8.
    """
    per_byte, largest, middle = 8 // bits, (1 << bits) - 1, 1 << (bits - 1)

    def gather(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        count, rows, blocks = word(row, 2), word(row, 4), word(row, 6)
        depth, block = word(row, 9), word(row, 10)
        ids = ints64(word(row, 1), count)
        for index in range(count * part // parts, count * (part + 1) // parts):
            y, place = floats(word(row, 11) + 4 * index * depth, depth), ids[index]
            place = place + rows if place < 0 else place
            if place < 0 or place >= rows:
                for j in range(depth):
                    y[j] = np.float32(0)
                continue
            codes = bytes8(word(row, 3) + place * (depth // per_byte), depth // per_byte)
            for each in range(blocks):
                zero = middle
                if word(row, 7) != 0:
                    bit = each * bits
                    byte = bytes8(word(row, 7) + place * word(row, 8) + bit // 8, 1)[0]
                    zero = (byte >> (bit % 8)) & largest
                scale = floats(word(row, 5), rows * blocks)[place * blocks + each]
                first, last = each * block, min(depth, (each + 1) * block)
                for at in range(first // per_byte, last // per_byte):
                    byte = codes[at]
                    for field in range(per_byte):
                        code = np.int32((byte >> (field * bits)) & largest)
                        y[at * per_byte + field] = np.float32(code - np.int32(zero)) * scale

    return gather
