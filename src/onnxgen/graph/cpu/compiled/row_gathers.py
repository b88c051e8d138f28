"""Rows by number: embeddings of tokens, what is given in their place or beside them, the rows whose logits are wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.compiled.kernel import float_word, word
from onnxgen.graph.cpu.compiled.lane_floats import load, load_first, store, store_first
from onnxgen.graph.cpu.compiled.lane_halves import reader
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.isa import Isa

_TOKENS, _TOKEN_IDS = int(Header.TOKENS), int(Header.TOKEN_IDS)
_ROWS, _LOGITS_ROWS = int(Header.ROWS), int(Header.LOGITS_ROWS)
_GIVEN, _GIVEN_ROWS, _EMBEDS = int(Header.GIVEN), int(Header.GIVEN_ROWS), int(Header.GIVEN_EMBEDS)
_ZERO = np.float32(0)


def embed(*, elements: str, isa: Isa) -> Callable[[int, int, int, int, int], None]:
    """``y = table[token] * factor`` for the tokens of the header, all in the table.

    Words:

    1       width
    2       factor, float32
    3, 4    table: rows of float32, float16 or bfloat16; elements between them
    5, 6    y: float32 rows, floats between them
    """
    read, read_first, element_bytes = reader(elements, isa)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, factor = word(row, 1), float_word(row, 2)
        tokens, ids = word(step, _TOKENS), word(step, _TOKEN_IDS)
        for token in range(tokens * part // parts, tokens * (part + 1) // parts):
            source = word(row, 3) + element_bytes * word(ids, token) * word(row, 4)
            y = word(row, 5) + 4 * token * word(row, 6)
            i = 0
            while i + LANES <= width:
                store(y + 4 * i, read(source + element_bytes * i) * factor)
                i += LANES
            if i < width:
                left = width - i
                store_first(y + 4 * i, left, read_first(source + element_bytes * i, left) * factor)

    return kernel


def wanted_rows() -> Callable[[int, int, int, int, int], None]:
    """``y[i] = x[r]`` for the rows ``r`` whose logits are wanted.

    Words:

    1       width
    2, 3    x: float32 rows, floats between them
    4, 5    y: likewise
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width = word(row, 1)
        rows, wanted = word(step, _ROWS), word(step, _LOGITS_ROWS)
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            x = word(row, 2) + 4 * word(wanted, r) * word(row, 3)
            y = word(row, 4) + 4 * r * word(row, 5)
            i = 0
            while i + LANES <= width:
                store(y + 4 * i, load(x + 4 * i))
                i += LANES
            if i < width:
                store_first(y + 4 * i, width - i, load_first(x + 4 * i, width - i, _ZERO))

    return kernel


def given_rows() -> Callable[[int, int, int, int, int], None]:
    """``y[r] = embeds[i]`` for the rows ``r`` of the header whose embeddings are given.

    Words:

    1       width
    2, 3    y: float32 rows, floats between them
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width = word(row, 1)
        given, rows, embeds = word(step, _GIVEN), word(step, _GIVEN_ROWS), word(step, _EMBEDS)
        for g in range(given * part // parts, given * (part + 1) // parts):
            x = embeds + 4 * g * width
            y = word(row, 2) + 4 * word(rows, g) * word(row, 3)
            i = 0
            while i + LANES <= width:
                store(y + 4 * i, load(x + 4 * i))
                i += LANES
            if i < width:
                store_first(y + 4 * i, width - i, load_first(x + 4 * i, width - i, _ZERO))

    return kernel


def token_rows() -> Callable[[int, int, int, int, int], None]:
    """``y[t] = x[t]`` for all tokens, of rows that a word of the header has the address of; zeros where it has none.

    Words:

    1       width
    2       which word
    3, 4    y: float32 rows, floats between them
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        width, source = word(row, 1), word(step, word(row, 2))
        tokens, zeros = word(step, _TOKENS), load_first(row, 0, _ZERO)
        for t in range(tokens * part // parts, tokens * (part + 1) // parts):
            x = source + 4 * t * width
            y = word(row, 3) + 4 * t * word(row, 4)
            i = 0
            while i + LANES <= width:
                store(y + 4 * i, load(x + 4 * i) if source else zeros)
                i += LANES
            if i < width:
                left = width - i
                store_first(y + 4 * i, left, load_first(x + 4 * i, left, _ZERO) if source else zeros)

    return kernel
