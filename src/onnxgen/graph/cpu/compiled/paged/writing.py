"""Queries, keys and values of new tokens: normed, rotated, rounded, and put where attention reads them."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.compiled.kernel import float_word, floats, ints8, ints16, ints32, ints64, word
from onnxgen.graph.cpu.compiled.paged.arguments import WRITE, words
from onnxgen.graph.cpu.compiled.paged.layout import MOST_TILE_TOKENS, SCALES, token_bytes
from onnxgen.graph.cpu.compiled.paged.numbers import (
    LARGEST_BYTE,
    LARGEST_VALUE,
    LARGEST_WORD,
    LONGEST_VECTOR,
    mixed_dims,
)
from onnxgen.graph.cpu.compiled.paged.rounding import (
    bits_of,
    copy_of,
    exponential_of,
    largest_of,
    mixed_of,
    root,
    squares_of,
    to_integers_of,
    weighted_of,
)
from onnxgen.graph.cpu.isa import Isa

(
    _ROWS,
    _ROW_BYTES,
    _QUERY_COLUMN,
    _KEY_COLUMN,
    _VALUE_COLUMN,
    _KV_HEADS,
    _GROUP,
    _SCALE,
    _QUERY_NORM,
    _KEY_NORM,
    _EPSILON,
    _COS,
    _SIN,
    _QUERIES,
    _QUERY_SCALES,
    _PAGES,
    _BLOCK_BYTES,
    _SLOTS,
) = words(WRITE, *WRITE)

_ONE, _NONE = np.float32(1), np.float32(0)
_LENGTH, _WORD, _BYTE, _VALUE = (
    np.float32(1 / largest) for largest in (LONGEST_VECTOR, LARGEST_WORD, LARGEST_BYTE, LARGEST_VALUE)
)
_TINY = np.float32(1e-30)
"""Rows of nothing larger are rows of zeros."""
_HUGE = np.float32(np.finfo(np.float32).max)
_SMALLEST_VALUE_SCALE = np.float32(2.0**-40)
_LINE, _BIAS = np.float32(2.0**-23), np.float32(127 - 0.0862)
"""The bits of ``x``, as a number, times `_LINE` less 127 are ``log2(x)`` less at most 0.0861."""


def write_keys_values(
    *, isa: str, head_dim: int, value_dim: int, bits: int, norm: bool, rotary_dim: int, interleaved: bool
) -> Callable[..., None]:
    """The kernel; its arguments are `arguments.WRITE`.

    Args:
        isa: A value of `Isa`.
        head_dim: Dimensions of queries and keys.
        value_dim: Dimensions of values.
        bits: Of each number of keys and values, 16 or 8; queries have 16.
        norm: Whether queries and keys are divided by their root mean square, head by head, and weighted.
        rotary_dim: Leading dimensions that are rotated; 0 for none.
        interleaved: Whether rotated pairs are neighbours; otherwise an element of the first half and one of the second.
    """
    target = Isa(isa)
    squares, largest, to_query = (
        squares_of(target, head_dim),
        largest_of(head_dim),
        to_integers_of(head_dim, 16),
    )
    largest_value, to_key, to_value = (
        largest_of(value_dim),
        to_integers_of(head_dim, bits),
        to_integers_of(value_dim, bits),
    )
    copy, weighted, exponential = (copy_of(head_dim), weighted_of(head_dim), exponential_of(target))
    number_bytes, bytes_of_token = bits // 8, token_bytes(head_dim, value_dim, bits)
    numbers, pairs_of_numbers = (ints16, ints32) if bits == 16 else (ints8, ints16)
    unit_of_key, unit_of_value = (_WORD, _VALUE) if bits == 16 else (_BYTE, _BYTE)
    half, step_of_pair = rotary_dim // 2, 2 if interleaved else 1
    second = 1 if interleaved else half
    mix = mixed_of(head_dim, mixed_dims(head_dim, bits))
    rounded_at = 4 * max(head_dim, value_dim)

    @inline
    def prepare(row: int, source: int, weights: int, position: int, made: int) -> None:
        """A query or key, normed, rotated and mixed."""
        if norm:
            mean = squares(source, _ONE) / np.float32(head_dim)
            weighted(source, _ONE / root(mean + float_word(row, _EPSILON)), weights, made)
        else:
            copy(source, made)
        if rotary_dim:
            cos = floats(word(row, _COS) + 4 * half * position, half)
            sin = floats(word(row, _SIN) + 4 * half * position, half)
            y = floats(made, head_dim)
            for i in range(half):
                real, imaginary = y[i * step_of_pair], y[i * step_of_pair + second]
                y[i * step_of_pair] = real * cos[i] - imaginary * sin[i]
                y[i * step_of_pair + second] = imaginary * cos[i] + real * sin[i]
        mix(made)

    def rounding(to_integers: Any, unit: np.float32) -> Any:
        @inline
        def rounded(made: int, out: int) -> np.float32:
            """Integers of a query or key, and their scale."""
            size = largest(made)
            if size <= _TINY:
                to_integers(made, _NONE, out)
                return _NONE
            inverse = _ONE / size
            scale = size * max(root(squares(made, inverse)) * _LENGTH, unit)
            to_integers(made, _ONE / scale if size <= _HUGE else _NONE, out)
            # What is not finite has no integers: its scale says so.
            return scale if size <= _HUGE else np.float32(np.nan)

        return rounded

    rounded_query, rounded_key = rounding(to_query, _WORD), rounding(to_key, unit_of_key)

    @inline
    def write_key(
        row: int, source: int, position: int, place: int, tile: int, lane: int, scratch: int
    ) -> None:
        prepare(row, source, word(row, _KEY_NORM), position, scratch)
        floats(place, tile)[lane] = rounded_key(scratch, scratch + rounded_at)
        pairs = pairs_of_numbers(scratch + rounded_at, head_dim // 2)
        out = pairs_of_numbers(place + 4 * SCALES * tile, head_dim // 2 * tile)
        for pair in range(head_dim // 2):
            out[pair * tile + lane] = pairs[pair]

    @inline
    def write_value(source: int, place: int, tile: int, lane: int, scratch: int) -> None:
        size = largest_value(source)
        log = np.float32(bits_of(max(size * unit_of_value, _SMALLEST_VALUE_SCALE))) * _LINE - _BIAS
        if not size <= _HUGE:
            log = np.float32(np.nan)
        inverse = exponential(-log)
        scales = floats(place, SCALES * tile)
        scales[tile + lane], scales[2 * tile + lane] = log, inverse
        to_value(source, inverse, scratch + rounded_at)
        values = place + (4 * SCALES + number_bytes * head_dim) * tile
        mine = numbers(scratch + rounded_at, value_dim)
        out = numbers(values + lane // 2 * 2 * number_bytes * value_dim, 2 * value_dim)
        for i in range(value_dim):
            out[2 * i + lane % 2] = mine[i]

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        kv_heads, group, tokens = (word(row, _KV_HEADS), word(row, _GROUP), word(step, _TOKENS_WORD))
        block_size = word(step, _BLOCK_SIZE)
        slots = ints64(word(step, word(row, _SLOTS)), tokens)
        positions = ints64(word(step, _POSITIONS), tokens)
        # The largest power of two in it.
        tile = min(block_size & -block_size, MOST_TILE_TOKENS)
        units = tokens * kv_heads
        for unit in range(part * units // parts, (part + 1) * units // parts):
            token, head = unit // kv_heads, unit % kv_heads
            source, position = (word(row, _ROWS) + token * word(row, _ROW_BYTES), positions[token])
            block, offset = slots[token] // block_size, slots[token] % block_size
            lane = offset % tile
            place = word(row, _PAGES) + block * word(row, _BLOCK_BYTES)
            place += (head * block_size + offset - lane) * bytes_of_token
            key = source + 4 * (word(row, _KEY_COLUMN) + head * head_dim)
            write_key(row, key, position, place, tile, lane, scratch)
            write_value(
                source + 4 * (word(row, _VALUE_COLUMN) + head * value_dim), place, tile, lane, scratch
            )
            queries = (head * tokens + token) * group
            for index in range(group):
                column = word(row, _QUERY_COLUMN) + (head * group + index) * head_dim
                prepare(row, source + 4 * column, word(row, _QUERY_NORM), position, scratch)
                scale = rounded_query(scratch, word(row, _QUERIES) + 2 * head_dim * (queries + index))
                place = word(row, _QUERY_SCALES) + 4 * (queries + index)
                floats(place, 1)[0] = scale * float_word(row, _SCALE)

    return kernel


_TOKENS_WORD, _POSITIONS, _BLOCK_SIZE = (
    int(name) for name in (Header.TOKENS, Header.POSITIONS, Header.BLOCK_SIZE)
)
