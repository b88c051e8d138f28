"""Right operands of convolutions of bytes: what each window sees is a column, laid out as tiles read it.

    column  window (out y, out x)
    depth   channel, then the element (k y, k x) of the window

Four lines of the depth are gathered for 64 neighbouring windows, and woven into each other.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

from onnxgen.graph.cpu.byte_layout import PANEL, STEP
from onnxgen.graph.cpu.compiled.byte_operands import Kernel, column_sums, padded_bytes, share
from onnxgen.graph.cpu.compiled.byte_tile import interleave_rows
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import bytes8, ints32, word
from onnxgen.graph.cpu.isa import Isa


@inline
def _fill(line: Any, first: int, last: int, value: int) -> None:
    for j in range(first, last):
        line[j] = value


@inline
def _gather(line: Any, source: Any, first: int, count: int, start: int, stride: int, outside: int) -> None:
    """``line[first + j] = source[start + j * stride]`` where that is inside of the source."""
    size = source.size
    if stride == 1:
        begin = min(count, max(0, -start))
        end = max(begin, min(count, size - start))
        _fill(line, first, first + begin, outside)
        inside, seen = line[first + begin : first + end], source[start + begin : start + end]
        for j in range(inside.size):
            inside[j] = seen[j]
        _fill(line, first + end, first + count, outside)
        return
    for j in range(count):
        at = start + j * stride
        line[first + j] = source[at] if 0 <= at < size else outside


def pack_patches(*, isa: Isa) -> Kernel:
    """Parts are any split of the panels.

    Words:

        1, 2, 3, 4    x: bytes [channels, height, width]; channels, height, width
        5, 6          out height, out width
        7, 8          kernel height, width
        9, 10         strides along the height, the width
        11, 12        dilations
        13, 14        padding before
        15, 16        flip (128 for unsigned bytes); the byte that stands for what is outside
        17, 18        zero point of flipped bytes; zeros: int32 [columns], to be filled with it
        19, 20        tiles, sums: to be written, see `byte_operands.pack`
    """
    add_columns = column_sums(isa)

    def pack_windows(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        channels, height, width = word(row, 2), word(row, 3), word(row, 4)
        out_width, down, across = word(row, 6), word(row, 7), word(row, 8)
        stride_y, stride_x, flip, outside = word(row, 9), word(row, 10), word(row, 15), word(row, 16)
        columns, elements = word(row, 5) * out_width, down * across
        depth, zero = channels * elements, word(row, 17)
        padded, panels = padded_bytes(depth), (columns + PANEL - 1) // PANEL
        ones, lines = bytes8(scratch, padded), scratch + padded
        _fill(ones, 0, padded, 1)
        for panel in range(share(panels, part, parts), share(panels, part + 1, parts)):
            first = panel * PANEL
            count = min(PANEL, columns - first)
            target = word(row, 19) + panel * padded * PANEL
            first_y, first_x = first // out_width, first % out_width
            _fill(bytes8(lines, STEP * PANEL), 0, STEP * PANEL, flip)
            for k in range(padded):
                line = bytes8(lines + k % STEP * PANEL, PANEL)
                if k < depth:
                    channel, element = k // elements, k % elements
                    away_y = element // across * word(row, 11) - word(row, 13)
                    away_x = element % across * word(row, 12) - word(row, 14)
                    done, out_y, out_x = 0, first_y, first_x
                    while done < count:
                        length = min(out_width - out_x, count - done)
                        at_y = out_y * stride_y + away_y
                        if 0 <= at_y < height:
                            source = bytes8(word(row, 1) + (channel * height + at_y) * width, width)
                            _gather(line, source, done, length, out_x * stride_x + away_x, stride_x, outside)
                        else:
                            _fill(line, done, done + length, outside)
                        done, out_y, out_x = done + length, out_y + 1, 0
                else:
                    _fill(line, 0, PANEL, flip)
                if k % STEP == STEP - 1:
                    interleave_rows(lines, PANEL, target + k // STEP * STEP * PANEL, flip)
            total = ints32(word(row, 20) + 4 * first, PANEL)
            add_columns(target, padded // STEP, scratch, word(row, 20) + 4 * first)
            zeros = ints32(word(row, 18) + 4 * first, count)
            for j in range(count):
                total[j] -= depth * zero
                zeros[j] = zero

    return pack_windows
