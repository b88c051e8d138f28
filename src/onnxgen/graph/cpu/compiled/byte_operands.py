"""Operands of products of bytes, laid out as tiles read them (`onnxgen.graph.cpu.byte_layout`)."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.
# ruff: noqa: FURB136
# Reason: min and max would not let NaN pass.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.byte_layout import PANEL, STEP, padded_depth
from onnxgen.graph.cpu.compiled.byte_tile import byte_tile, interleave_rows, tile_shape
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats, ints8, ints32, word
from onnxgen.graph.cpu.compiled.vectors import LANES
from onnxgen.graph.cpu.isa import Isa

Kernel = Callable[[int, int, int, int, int], None]


@inline
def share(count: int, part: int, parts: int) -> int:
    """Where the work of a part begins, of ``count`` units."""
    return count * part // parts


padded_bytes = inline(padded_depth)


def column_sums(isa: Isa) -> Callable[..., None]:
    """``add(panel, steps, ones, sums)``: int32 sums of a panel's columns, by multiplying it by as many ``ones``."""
    width = tile_shape(isa).vectors * LANES
    tile = byte_tile(isa, 1, tile_shape(isa).vectors)

    @inline
    def add(panel: int, steps: int, ones: int, sums: int) -> None:
        for at in range(0, PANEL, width):
            tile(ones, 0, panel + at * STEP, sums + 4 * at, steps)

    return add


def pack(*, isa: Isa) -> Kernel:
    """Lay out a right operand; a part packs some panels.

    Arguments: ``source`` bytes ``[depth, columns]``, ``flip`` (128 for unsigned bytes, else 0), ``zeros`` int32
    ``[columns]`` (of the flipped bytes), ``tiles`` and ``sums`` int32 ``[panels * PANEL]`` to be written.
    """
    add_columns = column_sums(isa)

    def pack_columns(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        source, depth, columns, flip = word(row, 1), word(row, 2), word(row, 3), word(row, 4)
        zeros, tiles, sums = word(row, 5), word(row, 6), word(row, 7)
        padded = padded_bytes(depth)
        panels = (columns + PANEL - 1) // PANEL
        whole_steps = depth // STEP
        zero, total = ints32(zeros, columns), ints32(sums, panels * PANEL)
        ones = bytes8(scratch, padded)
        for k in range(padded):
            ones[k] = 1
        for panel in range(share(panels, part, parts), share(panels, part + 1, parts)):
            first = panel * PANEL
            count = min(PANEL, columns - first)
            target = tiles + panel * padded * PANEL
            packed = ints8(target, padded * PANEL)
            whole = whole_steps if count == PANEL else 0
            for at in range(whole):
                interleave_rows(
                    source + at * STEP * columns + first, columns, target + at * STEP * PANEL, flip
                )
            for at in range(whole * STEP * PANEL, padded * PANEL):
                packed[at] = 0
            for k in range(whole * STEP, depth):
                line = bytes8(source + k * columns + first, count)
                for j in range(count):
                    packed[(k // STEP * PANEL + j) * STEP + k % STEP] = np.int8(line[j] ^ flip)
            add_columns(target, padded // STEP, scratch, sums + 4 * first)
            for j in range(count):
                total[first + j] -= depth * zero[first + j]

    return pack_columns


def arrange() -> Kernel:
    """Lay out a left operand; a part does some rows.

    Arguments: ``source`` bytes ``[rows, depth]``, ``flip`` (128 for signed bytes, else 0), ``bytes`` and ``sums`` int32
    ``[rows]`` to be written.
    """

    def arrange_rows(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        source, rows, depth, flip = word(row, 1), word(row, 2), word(row, 3), word(row, 4)
        target, sums = word(row, 5), word(row, 6)
        padded, total = padded_bytes(depth), ints32(sums, rows)
        mask = np.uint8(flip)
        for r in range(share(rows, part, parts), share(rows, part + 1, parts)):
            given, moved = bytes8(source + r * depth, depth), bytes8(target + r * padded, depth)
            so_far = np.int32(0)
            for k in range(depth):
                value = given[k] ^ mask
                moved[k] = value
                so_far += np.int32(value)
            total[r] = so_far

    return arrange_rows


def value_range() -> Kernel:
    """The least and the largest number of each of ``num_ranges`` pieces: ``x`` float32 ``[size]`` into ``ranges [.., 2]``.

    NaN has no part in it; what has nothing but NaN has the empty range from infinity to -infinity.
    """

    def find_ranges(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        size, ranges, count = word(row, 2), word(row, 3), word(row, 4)
        for index in range(share(count, part, parts), share(count, part + 1, parts)):
            first, last = share(size, index, count), share(size, index + 1, count)
            x, ends = floats(word(row, 1) + 4 * first, last - first), floats(ranges + 8 * index, 2)
            low, high = np.float32(np.inf), np.float32(-np.inf)
            for i in range(last - first):
                low = x[i] if x[i] < low else low
                high = x[i] if x[i] > high else high
            ends[0], ends[1] = low, high

    return find_ranges


def quantize() -> Kernel:
    """Rows of float32 to uint8 by the range of all of them, extended to 0.

    Arguments: ``x`` ``[rows, depth]``, ``ranges`` ``[count, 2]``, ``bytes`` and ``sums`` as `arrange` writes them,
    ``scale`` float32 and ``zero`` int32, one of each.
    """

    def quantize_rows(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        source, rows, depth = word(row, 1), word(row, 2), word(row, 3)
        ranges, count, target, sums = word(row, 4), word(row, 5), word(row, 6), word(row, 7)
        ends = floats(ranges, 2 * count)
        low, high = np.float32(np.inf), np.float32(-np.inf)
        for i in range(count):
            low = ends[2 * i] if ends[2 * i] < low else low
            high = ends[2 * i + 1] if ends[2 * i + 1] > high else high
        if low > high and rows * depth > 0:
            low = high = np.float32(np.nan)
        low = np.float32(0) if low > np.float32(0) else low
        high = np.float32(0) if high < np.float32(0) else high
        scale = (high - low) / np.float32(255)
        scale = np.float32(1) if scale == np.float32(0) else scale
        middle = np.rint(-low / scale)
        middle = middle if middle == middle else np.float32(255)  # noqa: PLR0124
        middle = np.float32(0) if middle < 0 else middle
        middle = np.float32(255) if middle > np.float32(255) else middle
        if part == 0:
            floats(word(row, 8), 1)[0] = scale
            ints32(word(row, 9), 1)[0] = np.int32(middle)
        padded, total = padded_bytes(depth), ints32(sums, rows)
        for r in range(share(rows, part, parts), share(rows, part + 1, parts)):
            x, moved = floats(source + 4 * r * depth, depth), bytes8(target + r * padded, depth)
            so_far = np.int32(0)
            for k in range(depth):
                value = np.rint(x[k] / scale) + middle
                value = np.float32(0) if value < np.float32(0) else value
                value = np.float32(255) if value > np.float32(255) else value
                value = value if value == value else np.float32(0)  # noqa: PLR0124
                whole = np.int32(value)
                moved[k] = whole
                so_far += whole
            total[r] = so_far

    return quantize_rows
