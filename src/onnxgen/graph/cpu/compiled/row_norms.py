"""RMS and layer normalization of rows, with what surrounds them: the sum of two inputs before, quantization after."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import float_word, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    exact,
    inverse_root,
    largest_of,
    load,
    load_first,
    splat,
    store,
    store_first,
)
from onnxgen.graph.cpu.compiled.quantized_groups import group_quantizer
from onnxgen.graph.cpu.compiled.row_sums import squares, total
from onnxgen.graph.cpu.compiled.vector_math import LANES

_ZERO = np.float32(0)


def norm(
    *,
    centered: bool,
    bias: bool,
    skip: bool,
    skip_bias: bool,
    quantized: str | None,
    group: int,
) -> Callable[[int, int, int, int, int], None]:
    """``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``; without ``centered`` the mean is taken for 0.

    A row is ``pieces`` pieces of ``width`` floats, each normed by itself with the same weights.

    Words:

        1, 2    rows: index of the header's word that counts them; pieces
        3       width
        4       epsilon, float32
        5, 6    weight, bias: float32 [width]
        7, 8    x: float32 rows, floats between them
        9, 10   y: likewise, may be x; 0 where only integers are wanted
        11, 12  skip: rows that are added to x first
        13      skip bias: float32 [pieces * width], added too
        14, 15  sum: rows where that sum is written, may be x or skip
        16, 17  q: rows of integers, elements between them: padded with zeros to whole groups
        18, 19  scale: float32 for each group; groups between rows
        20      total: int32 for each group, likewise
    """
    quantize = group_quantizer(quantized or "int8", group)
    q_bytes = 2 if quantized == "int16" else 1

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        pieces, width, epsilon = word(row, 2), word(row, 3), float_word(row, 4)
        weight, biases = word(row, 5), word(row, 6)
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * width
            x = word(row, 7) + 4 * (r * word(row, 8) + first)
            y = word(row, 9) + 4 * (r * word(row, 10) + first) if word(row, 9) else scratch
            if skip:
                other = word(row, 11) + 4 * (r * word(row, 12) + first)
                added = word(row, 14) + 4 * (r * word(row, 15) + first)
                add_rows(x, other, added, width)
                if skip_bias:
                    add_rows(added, word(row, 13) + 4 * first, added, width)
                x = added
            mean = total(x, width) / np.float32(width) if centered else _ZERO
            variance = squares(x, width, mean) / np.float32(width)
            inverse = largest_of(inverse_root(splat(variance + epsilon)))
            i = 0
            while i + LANES <= width:
                at = 4 * i
                value = (load(x + at) - mean) * inverse * load(weight + at)
                if bias:
                    value += load(biases + at)
                store(y + at, value)
                i += LANES
            if i < width:
                at, count = 4 * i, width - i
                value = (load_first(x + at, count, _ZERO) - mean) * inverse
                value = value * load_first(weight + at, count, _ZERO)
                if bias:
                    value += load_first(biases + at, count, _ZERO)
                store_first(y + at, count, value)
            if quantized is not None:
                quantize_row(
                    y,
                    width,
                    scratch,
                    word(row, 16) + q_bytes * (r * word(row, 17) + first),
                    word(row, 18) + 4 * (r * word(row, 19) + first // group),
                    word(row, 20) + 4 * (r * word(row, 19) + first // group),
                )

    quantize_row = row_quantizer(quantize, group, q_bytes)
    return kernel


@exact
def add_rows(x: int, other: int, y: int, count: int) -> None:
    """``y = x + other``, ``count`` floats at these addresses."""
    i = 0
    while i + LANES <= count:
        store(y + 4 * i, load(x + 4 * i) + load(other + 4 * i))
        i += LANES
    if i < count:
        at = 4 * i
        store_first(
            y + at, count - i, load_first(x + at, count - i, _ZERO) + load_first(other + at, count - i, _ZERO)
        )


def row_quantizer(quantize: Callable[..., None], group: int, q_bytes: int) -> Callable[..., None]:
    """``quantize_row(x, width, scratch, q, scale, total)``: the last group is filled up with zeros."""

    @exact
    def quantize_row(x: int, width: int, scratch: int, q: int, scale: int, total: int) -> None:
        whole = width // group
        quantize(x, q, scale, total, whole)
        if whole * group < width:
            x += 4 * whole * group
            left = width - whole * group
            for i in range(0, group, LANES):
                store(scratch + 4 * i, load_first(x + 4 * i, left - i, _ZERO))
            quantize(scratch, q + q_bytes * whole * group, scale + 4 * whole, total + 4 * whole, 1)

    return quantize_row
