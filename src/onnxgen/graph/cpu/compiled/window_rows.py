"""The step kernel of small windows over planes: depthwise convolution and pooling, sixteen windows of a row at a time.

Window ``o`` of an axis sees input ``o * stride + k * dilation - pad``. With a stride of 1 the elements ``k`` of sixteen
neighbouring windows are neighbours, with a stride of 2 every other one of 32. What lies outside is never touched.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.kernel import floats, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    MASK,
    exact,
    fma,
    in_all_lanes,
    lanes,
    load,
    load_first,
    of_lanes,
    place,
    splat,
    store,
    store_first,
)
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES

_I32 = ir.IntType(32)

_ROWS = 4
"""Rows of windows at once: as many sums hide the latency of a multiply-add."""

_MARGIN = 4096
"""Before the row that stands for those outside: where lanes that are masked out lie on no page, a load is slow."""


def _load_inside(_context: Any, line: Any, at: Any, size: Any, rest: Any) -> Any:
    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        line, at, size, rest = arguments
        numbers = b.add(in_all_lanes(b, b.trunc(at, _I32)), ir.Constant(INTS, list(range(LANES))))
        # As unsigned numbers those before the beginning are beyond the end.
        inside = b.icmp_unsigned("<", numbers, in_all_lanes(b, b.trunc(size, _I32)))
        kind = ir.FunctionType(FLOATS, [FLOATS.as_pointer(), _I32, MASK, FLOATS])
        function = cgutils.get_or_insert_function(b.module, kind, f"llvm.masked.load.v{LANES}f32.p0")
        source = place(b, b.add(line, b.mul(at, at.type(4))), FLOATS)
        return b.call(function, [source, _I32(4), inside, in_all_lanes(b, rest)])

    return lanes(types.intp, types.intp, types.intp, types.float32), generate


_load_edge: Any = intrinsic(_load_inside)
"""``load_edge(line, at, size, rest)``: sixteen float32 from ``line[at]`` on; ``rest`` for those outside of the line."""


def _every_other(b: Any, x: Any, y: Any) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(INTS, list(range(0, 2 * LANES, 2))))


def _larger_or_nan(b: Any, x: Any, y: Any) -> Any:
    wins = b.or_(b.fcmp_ordered(">", y, x), b.fcmp_unordered("uno", y, y))
    return b.select(wins, y, x)


_evens = of_lanes(_every_other, 2)
_maximum = of_lanes(_larger_or_nan, 2)

StepFunction = Callable[[int, int, int, int, int], None]


def window_rows(*, kind: str, stride: int, weighted: bool, divided: bool) -> StepFunction:
    """``y = sum of w * x (+ bias) (/ divisor)``, or the largest ``x``, over each window; NaN wins.

    Parts are any split of ``row_blocks`` blocks of rows of each plane.

    Words:

        1, 2, 3     x: float32 [planes, height, width]; height, width
        4, 5        y: float32 [planes of y, out height, out width]; planes of y
        6, 7        out height, out width
        8, 9        planes of y for each plane of x; row_blocks
        10, 11      kernel height, width
        12, 13, 14  stride, dilation, padding along the height
        15, 16      dilation, padding along the width
        17, 18      weights: float32 [channels, elements of the kernel]; channels
        19, 20      bias: float32 [channels of bias], what each window begins with; channels
        21          divisors: float32 [out height, out width]

    Args:
        kind: ``sum`` or ``max``.
        stride: 1 or 2, along the width.
        weighted: Whether there are weights.
        divided: Whether there are divisors.
    """
    is_sum = kind == "sum"
    outside = np.float32(0) if is_sum else np.float32(-np.inf)

    @exact
    def read(line: int, at: int, size: int, edge: bool) -> Any:
        if edge:
            if stride == 1:
                return _load_edge(line, at, size, outside)
            return _evens(_load_edge(line, at, size, outside), _load_edge(line, at + LANES, size, outside))
        if stride == 1:
            return load(line + 4 * at)
        return _evens(load(line + 4 * at), load(line + 4 * (at + LANES)))

    @exact
    def joined(found: Any, value: Any, factor: Any) -> Any:
        if weighted:
            return fma(value, factor, found)
        return found + value if is_sum else _maximum(found, value)

    @exact
    def line_of(x: int, at: int, height: int, width: int, nothing: int) -> int:
        return x + 4 * at * width if 0 <= at < height else nothing

    @exact
    def finish(row: int, plane: int, out_y: int, out_x: int, found: Any) -> None:
        out_height, out_width = word(row, 6), word(row, 7)
        count = out_width - out_x
        if divided:
            found = found / load_first(word(row, 21) + 4 * (out_y * out_width + out_x), count, np.float32(1))
        store_first(word(row, 4) + 4 * ((plane * out_height + out_y) * out_width + out_x), count, found)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        height, width = word(row, 2), word(row, 3)
        planes, out_height, out_width = word(row, 5), word(row, 6), word(row, 7)
        multiplier, blocks, across, down = word(row, 8), word(row, 9), word(row, 11), word(row, 10)
        stride_y, dilation_y, pad_y = word(row, 12), word(row, 13), word(row, 14)
        dilation_x, pad_x, elements = word(row, 15), word(row, 16), down * across
        nothing = scratch + _MARGIN
        for column in range(0, width, LANES):
            store(nothing + 4 * column, splat(outside))
        for unit in range(planes * blocks * part // parts, planes * blocks * (part + 1) // parts):
            plane, block = unit // blocks, unit % blocks
            x = word(row, 1) + 4 * (plane // multiplier) * height * width
            w = floats(word(row, 17) + 4 * (plane % word(row, 18)) * elements, elements)
            begin = splat(floats(word(row, 19), word(row, 20))[plane % word(row, 20)])
            last = out_height * (block + 1) // blocks
            for first in range(out_height * block // blocks, last, _ROWS):
                second, third, fourth = (
                    min(first + 1, last - 1),
                    min(first + 2, last - 1),
                    min(first + 3, last - 1),
                )
                for out_x in range(0, out_width, LANES):
                    a, b, c, d = begin, begin, begin, begin
                    for k_y in range(down):
                        away = k_y * dilation_y - pad_y
                        line_a = line_of(x, first * stride_y + away, height, width, nothing)
                        line_b = line_of(x, second * stride_y + away, height, width, nothing)
                        line_c = line_of(x, third * stride_y + away, height, width, nothing)
                        line_d = line_of(x, fourth * stride_y + away, height, width, nothing)
                        at = out_x * stride - pad_x
                        for k_x in range(across):
                            edge = at < 0 or at + stride * LANES > width
                            factor = w[k_y * across + k_x] if weighted else outside
                            a = joined(a, read(line_a, at, width, edge), factor)
                            b = joined(b, read(line_b, at, width, edge), factor)
                            c = joined(c, read(line_c, at, width, edge), factor)
                            d = joined(d, read(line_d, at, width, edge), factor)
                            at += dilation_x
                    # From below: where rows are fewer than four, the last one is written last.
                    finish(row, plane, fourth, out_x, d)
                    finish(row, plane, third, out_x, c)
                    finish(row, plane, second, out_x, b)
                    finish(row, plane, first, out_x, a)

    return kernel
