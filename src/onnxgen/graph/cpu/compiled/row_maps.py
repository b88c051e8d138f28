"""Functions of every element of rows: of one, of two, of a gate and what it lets through.

The work is cut into pieces of a row, so that a single long row has parts too.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled import lane_floats
from onnxgen.graph.cpu.compiled.kernel import float_word, word
from onnxgen.graph.cpu.compiled.lane_floats import at_least, exact, load, load_first, store, store_first
from onnxgen.graph.cpu.compiled.quantized_groups import group_quantizer
from onnxgen.graph.cpu.compiled.row_norms import row_quantizer
from onnxgen.graph.cpu.compiled.vector_math import LANES

PIECE = 512
"""Floats of a row that are one unit of work; whole groups of any size that blocks of weights have."""

_ZERO = np.float32(0)

StepFunction = Callable[[int, int, int, int, int], None]


@exact
def _relu(x: Any, amount: Any) -> Any:
    return at_least(x, _ZERO)


@exact
def _relu_squared(x: Any, amount: Any) -> Any:
    positive = at_least(x, _ZERO)
    return positive * positive


@exact
def _soft_cap(x: Any, amount: Any) -> Any:
    return lane_floats.tanh(x / amount) * amount


@exact
def _scale(x: Any, amount: Any) -> Any:
    return x * amount


@exact
def _quick_gelu(x: Any, amount: Any) -> Any:
    return lane_floats.quick_gelu(x, amount)


def _plain(function: Any) -> Any:
    @exact
    def of_lanes(x: Any, amount: Any) -> Any:
        return function(x)

    return of_lanes


_FUNCTIONS: dict[str, Any] = {
    "relu": _relu,
    "relu_squared": _relu_squared,
    "soft_cap": _soft_cap,
    "scale": _scale,
    "quick_gelu": _quick_gelu,
    **{
        name: _plain(getattr(lane_floats, name))
        for name in ("silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "exp")
    },
}


@exact
def _sum(x: Any, y: Any) -> Any:
    return x + y


@exact
def _difference(x: Any, y: Any) -> Any:
    return x - y


@exact
def _product(x: Any, y: Any) -> Any:
    return x * y


_OPERATIONS: dict[str, Any] = {"add": _sum, "sub": _difference, "mul": _product}


def unary(*, function: str) -> StepFunction:
    """``y = function(x, amount)``.

    Words:

    1       rows: index of the header's word that counts them
    2       width
    3       amount, float32: what ``scale`` multiplies by, the cap of ``soft_cap``, the slope of ``quick_gelu``
    4, 5    x: float32 rows, floats between them
    6, 7    y: likewise; may be x
    """
    apply = _FUNCTIONS[function]

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, amount = word(row, 2), float_word(row, 3)
        pieces = (width + PIECE - 1) // PIECE
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * PIECE
            count = min(PIECE, width - first)
            x = word(row, 4) + 4 * (r * word(row, 5) + first)
            y = word(row, 6) + 4 * (r * word(row, 7) + first)
            i = 0
            while i + LANES <= count:
                store(y + 4 * i, apply(load(x + 4 * i), amount))
                i += LANES
            if i < count:
                left = count - i
                store_first(y + 4 * i, left, apply(load_first(x + 4 * i, left, _ZERO), amount))

    return kernel


def binary(*, operation: str) -> StepFunction:
    """``y = x operation other``.

    Words:

    1       rows: index of the header's word that counts them
    2       width
    3, 4    x: float32 rows, floats between them
    5, 6    other: likewise; 0 floats between rows repeats one
    7, 8    y: likewise; may be x or other
    """
    apply = _OPERATIONS[operation]

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width = word(row, 2)
        pieces = (width + PIECE - 1) // PIECE
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * PIECE
            count = min(PIECE, width - first)
            x = word(row, 3) + 4 * (r * word(row, 4) + first)
            other = word(row, 5) + 4 * (r * word(row, 6) + first)
            y = word(row, 7) + 4 * (r * word(row, 8) + first)
            i = 0
            while i + LANES <= count:
                store(y + 4 * i, apply(load(x + 4 * i), load(other + 4 * i)))
                i += LANES
            if i < count:
                at, left = 4 * i, count - i
                value = apply(load_first(x + at, left, _ZERO), load_first(other + at, left, _ZERO))
                store_first(y + at, left, value)

    return kernel


def gated(*, function: str, quantized: str | None, group: int) -> StepFunction:
    """``y = function(gate, amount) * up``.

    Words:

    1       rows: index of the header's word that counts them
    2       width
    3       amount, float32, as for `unary`
    4, 5    gate: float32 rows, floats between them
    6, 7    up: likewise
    8, 9    y: likewise, may be gate or up; 0 where only integers are wanted
    10, 11  q: rows of integers, elements between them: padded with zeros to whole groups
    12, 13  scale: float32 for each group; groups between rows
    14      total: int32 for each group, likewise
    """
    apply = _FUNCTIONS[function]
    q_bytes = 2 if quantized == "int16" else 1
    quantize_row = row_quantizer(group_quantizer(quantized or "int8", group), group, q_bytes)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, amount = word(row, 2), float_word(row, 3)
        pieces = (width + PIECE - 1) // PIECE
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * PIECE
            count = min(PIECE, width - first)
            gate = word(row, 4) + 4 * (r * word(row, 5) + first)
            up = word(row, 6) + 4 * (r * word(row, 7) + first)
            y = word(row, 8) + 4 * (r * word(row, 9) + first) if word(row, 8) else scratch
            i = 0
            while i + LANES <= count:
                at = 4 * i
                store(y + at, apply(load(gate + at), amount) * load(up + at))
                i += LANES
            if i < count:
                at, left = 4 * i, count - i
                opened = apply(load_first(gate + at, left, _ZERO), amount)
                store_first(y + at, left, opened * load_first(up + at, left, _ZERO))
            if quantized is not None:
                quantize_row(
                    y,
                    count,
                    scratch,
                    word(row, 10) + q_bytes * (r * word(row, 11) + first),
                    word(row, 12) + 4 * (r * word(row, 13) + first // group),
                    word(row, 14) + 4 * (r * word(row, 13) + first // group),
                )

    return kernel


def quantize_rows(*, elements: str, group: int) -> StepFunction:
    """Rows of floats as integers; see `quantized_groups`.

    Words:

    1       rows: index of the header's word that counts them
    2       width
    3, 4    x: float32 rows, floats between them
    5, 6    q: rows of integers, elements between them: padded with zeros to whole groups
    7, 8    scale: float32 for each group; groups between rows
    9       total: int32 for each group, likewise
    """
    q_bytes = 2 if elements == "int16" else 1
    quantize_row = row_quantizer(group_quantizer(elements, group), group, q_bytes)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width = word(row, 2)
        pieces = (width + PIECE - 1) // PIECE
        units = word(step, word(row, 1)) * pieces
        for unit in range(units * part // parts, units * (part + 1) // parts):
            r, first = unit // pieces, unit % pieces * PIECE
            quantize_row(
                word(row, 3) + 4 * (r * word(row, 4) + first),
                min(PIECE, width - first),
                scratch,
                word(row, 5) + q_bytes * (r * word(row, 6) + first),
                word(row, 7) + 4 * (r * word(row, 8) + first // group),
                word(row, 9) + 4 * (r * word(row, 8) + first // group),
            )

    return kernel
