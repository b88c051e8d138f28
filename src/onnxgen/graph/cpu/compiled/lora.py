"""What adapters add to products, each row by its own: first to few columns, then to all (arXiv:2106.09685).

    h [rows, rank]  = x A                             a row without an adapter is passed over
    y [rows, out]  += h B

Matrices are kept as they are read, 16 columns after 16 columns, and of B only where it is not zero: a product that
stands for several layers (query, key and value; gate and up by turns) has other ranks for other columns.

    A      float32 [rank / 16, depth, 16]
    B      float32 [sum of counts, 16]         for each tile of 16 columns its ranks from first to first + count
    tiles  int32 [tiles, 3]                    first, count, and where in B they begin
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import floats, ints32, word
from onnxgen.graph.cpu.compiled.lane_floats import fma, load, load_first, splat, store, store_first
from onnxgen.graph.cpu.compiled.vector_math import LANES

TILES_OF_PIECE = 16
"""Tiles of columns of a row that are one unit of work."""

RECORD_WORDS = 4
"""Of an adapter and a product: addresses of A, B and tiles, and how many tiles the rank has; 0 where nothing is added."""

_ZERO = np.float32(0)
_TILE_BYTES = 4 * LANES

StepFunction = Callable[[int, int, int, int, int], None]


def lora_down() -> StepFunction:
    """``h = x A``.

    Words:

    1       rows: index of the header's word that counts them
    2       adapters: index of the header's word with the address of int32 [rows], -1 for none
    3       records: int64 [adapters, RECORD_WORDS]
    4, 5    x: float32 rows, floats between them
    6       width of x
    7, 8    h: float32 rows, floats between them
    9       tiles of the highest rank of all adapters
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width, most = word(step, word(row, 1)), word(row, 6), word(row, 9)
        adapters = ints32(word(step, word(row, 2)), rows)
        units = rows * most
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, tile = unit // most, unit % most
            if adapters[r] < 0:
                continue
            record = word(row, 3) + 8 * RECORD_WORDS * adapters[r]
            if tile >= word(record, 3):
                continue
            x = floats(word(row, 4) + 4 * r * word(row, 5), width)
            a = word(record, 0) + tile * width * _TILE_BYTES
            first, second, third, fourth = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
            i = 0
            while i + 4 <= width:
                first = fma(x[i], load(a), first)
                second = fma(x[i + 1], load(a + _TILE_BYTES), second)
                third = fma(x[i + 2], load(a + 2 * _TILE_BYTES), third)
                fourth = fma(x[i + 3], load(a + 3 * _TILE_BYTES), fourth)
                a += 4 * _TILE_BYTES
                i += 4
            while i < width:
                first = fma(x[i], load(a), first)
                a += _TILE_BYTES
                i += 1
            h = word(row, 7) + 4 * (r * word(row, 8) + tile * LANES)
            store(h, (first + second) + (third + fourth))

    return kernel


def lora_up() -> StepFunction:
    """``y += h B``.

    Words:

    1, 2, 3 as of `lora_down`
    4, 5    h: float32 rows, floats between them
    6, 7    y: float32 rows, floats between them
    8       width of y
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(step, word(row, 1)), word(row, 8)
        adapters = ints32(word(step, word(row, 2)), rows)
        tiles = (width + LANES - 1) // LANES
        pieces = (tiles + TILES_OF_PIECE - 1) // TILES_OF_PIECE
        units = rows * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first_tile = unit // pieces, unit % pieces * TILES_OF_PIECE
            if adapters[r] < 0:
                continue
            record = word(row, 3) + 8 * RECORD_WORDS * adapters[r]
            if word(record, 3) == 0:
                continue
            ranges = ints32(word(record, 2), 3 * tiles)
            h = floats(word(row, 4) + 4 * r * word(row, 5), word(record, 3) * LANES)
            for tile in range(first_tile, min(tiles, first_tile + TILES_OF_PIECE)):
                first, count = ranges[3 * tile], ranges[3 * tile + 1]
                if count == 0:
                    continue
                b = word(record, 1) + _TILE_BYTES * ranges[3 * tile + 2]
                y = word(row, 6) + 4 * (r * word(row, 7) + tile * LANES)
                left = width - tile * LANES
                total = load(y) if left >= LANES else load_first(y, left, _ZERO)
                for k in range(count):
                    total = fma(h[first + k], load(b), total)
                    b += _TILE_BYTES
                if left >= LANES:
                    store(y, total)
                else:
                    store_first(y, left, total)

    return kernel
