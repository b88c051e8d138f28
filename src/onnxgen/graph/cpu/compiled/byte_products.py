"""Products of matrices of bytes, exact in int32, and what becomes of them.

    total[m, n] = sum over k of (left[m, k] - left_zero[m]) * (right[k, n] - right_zero[n])

Tiles multiply the bytes as they are. Zero points come off afterwards, by the sums of rows and columns:

    total = product - left_zero[m] * right_sum[n] - right_zero[n] * left_sum[m]

where ``right_sum`` is the column's sum of ``right - right_zero``, and ``left_sum`` the row's sum of ``left``.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.
# ruff: noqa: FURB136
# Reason: min and max would not let NaN pass.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.byte_layout import PANEL, STEP
from onnxgen.graph.cpu.compiled.byte_operands import Kernel, padded_bytes, share
from onnxgen.graph.cpu.compiled.byte_tile import TileShape, byte_tile, tile_shape
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats, ints32, word
from onnxgen.graph.cpu.compiled.vectors import LANES
from onnxgen.graph.cpu.isa import Isa


def product(*, isa: Isa, result: str) -> Kernel:
    """``left @ right``; parts are any split of the panels of columns, each for each of the ``row_blocks``.

    Arguments of all: both operands with their sums and zero points, and an int32 for each column and for each row (address 0:
    none), which belong to the totals. The bytes of the left operand were moved by ``left_flip``. A step of 0 bytes from row to row says that one value holds for all.

        totals   ``y`` int32
        floats   ``y`` float32: totals * (row_scale * column_scale) + bias (address 0: none)
        bytes    ``y`` int8 or uint8: totals * (row_scale * column_scale / y_scale), rounded, + y_zero, between ``low`` and
                 ``low + 255``

    Args:
        isa: The instruction set.
        result: What is written: ``totals``, ``floats`` or ``bytes``.
    """
    shape = tile_shape(isa)
    multiply = _tiles(isa, shape)
    write = {"totals": _write_totals, "floats": _write_floats, "bytes": _write_bytes}[result]
    most, width = shape.rows, shape.vectors * LANES

    def multiply_bytes(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        left, left_zeros, zero_step, flip = word(row, 1), word(row, 3), word(row, 4), word(row, 5)
        rows, depth, right, columns = word(row, 6), word(row, 7), word(row, 8), word(row, 11)
        padded, panels = padded_bytes(depth), (columns + PANEL - 1) // PANEL
        blocks = word(row, 14)
        left_sums, totals = ints32(word(row, 2), rows), ints32(scratch, most * PANEL)
        for unit in range(share(panels * blocks, part, parts), share(panels * blocks, part + 1, parts)):
            panel, block = unit // blocks, unit % blocks
            first_row, last_row = share(rows, block, blocks), share(rows, block + 1, blocks)
            tiles = (last_row - first_row + most - 1) // most
            first = panel * PANEL
            count = min(PANEL, columns - first)
            sums, zeros = ints32(word(row, 9) + 4 * first, count), ints32(word(row, 10) + 4 * first, count)
            for tile in range(tiles):
                start = first_row + share(last_row - first_row, tile, tiles)
                stop = first_row + share(last_row - first_row, tile + 1, tiles)
                for at in range(0, count, width):
                    columns_at = right + panel * padded * PANEL + at * STEP
                    multiply(
                        stop - start,
                        left + start * padded,
                        padded,
                        columns_at,
                        scratch + 4 * at,
                        padded // STEP,
                    )
                for r in range(start, stop):
                    line = totals[(r - start) * PANEL : (r - start) * PANEL + count]
                    zero, total = ints32(left_zeros + zero_step * r, 1)[0] + flip, left_sums[r]
                    for j in range(count):
                        line[j] = line[j] - zero * sums[j] - zeros[j] * total
                    if word(row, 12) != 0:
                        addend = ints32(word(row, 12) + 4 * first, count)
                        for j in range(count):
                            line[j] += addend[j]
                    if word(row, 13) != 0:
                        more = ints32(word(row, 13), rows)[r]
                        for j in range(count):
                            line[j] += more
                    write(row, line, r, first, columns, count)

    return multiply_bytes


def _tiles(isa: Isa, shape: TileShape) -> Callable[..., None]:
    """A function of the number of rows, and of what `byte_tile` takes."""
    one, two, *more = (byte_tile(isa, rows, shape.vectors) for rows in range(1, shape.rows + 1))

    @inline
    def few(rows: int, left: int, stride: int, columns: int, sums: int, steps: int) -> None:
        if rows == 1:
            one(left, stride, columns, sums, steps)
        else:
            two(left, stride, columns, sums, steps)

    if not more:
        return few
    three, four, five, six = more

    @inline
    def any_number(rows: int, left: int, stride: int, columns: int, sums: int, steps: int) -> None:
        if rows == 6:
            six(left, stride, columns, sums, steps)
        elif rows == 5:
            five(left, stride, columns, sums, steps)
        elif rows == 4:
            four(left, stride, columns, sums, steps)
        elif rows == 3:
            three(left, stride, columns, sums, steps)
        else:
            few(rows, left, stride, columns, sums, steps)

    return any_number


@inline
def _write_totals(row: int, totals: Any, r: int, first: int, columns: int, count: int) -> None:
    y = ints32(word(row, 15) + 4 * (r * columns + first), count)
    for j in range(count):
        y[j] = totals[j]


@inline
def _write_floats(row: int, totals: Any, r: int, first: int, columns: int, count: int) -> None:
    y = floats(word(row, 15) + 4 * (r * columns + first), count)
    scale, scales = floats(word(row, 16) + word(row, 17) * r, 1)[0], floats(word(row, 18) + 4 * first, count)
    for j in range(count):
        y[j] = np.float32(totals[j]) * (scale * scales[j])
    if word(row, 19) != 0:
        bias = floats(word(row, 19) + 4 * first, count)
        for j in range(count):
            y[j] += bias[j]


@inline
def _write_bytes(row: int, totals: Any, r: int, first: int, columns: int, count: int) -> None:
    y = bytes8(word(row, 15) + r * columns + first, count)
    scale, scales = floats(word(row, 16) + word(row, 17) * r, 1)[0], floats(word(row, 18) + 4 * first, count)
    y_scale, y_zero = floats(word(row, 19), 1)[0], np.float32(ints32(word(row, 20), 1)[0])
    low = np.float32(word(row, 21))
    high = low + np.float32(255)
    for j in range(count):
        value = np.rint(np.float32(totals[j]) * (scale * scales[j] / y_scale)) + y_zero
        value = low if value < low else value
        value = high if value > high else value
        value = value if value == value else np.float32(0)  # noqa: PLR0124
        y[j] = np.uint8(np.int32(value))
