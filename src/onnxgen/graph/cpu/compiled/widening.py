"""Rows of narrow numbers as float32, in vectors; and back."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.function import inline, leaf
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats
from onnxgen.graph.cpu.compiled.lane_bytes import load_bytes, load_nibbles
from onnxgen.graph.cpu.compiled.lane_floats import load, store
from onnxgen.graph.cpu.compiled.lane_halves import reader
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.isa import host_isa

load_half: Any = reader("float16", host_isa())[0]
load_bfloat: Any = reader("bfloat16", host_isa())[0]

FLOAT, HALF, BFLOAT, INT8, INT4 = range(5)
"""How elements are stored. INT4 is unsigned, two in a byte, the first in its low half, and 8 means 0."""

_VECTOR_BYTES = 4 * LANES


@inline
def vector_bytes(kind: int) -> int:
    """Bytes of `LANES` elements."""
    if kind == FLOAT:
        return 4 * LANES
    if kind in (HALF, BFLOAT):
        return 2 * LANES
    return LANES if kind == INT8 else LANES // 2


@inline
def load_kind(kind: int, address: int) -> Any:
    """`LANES` elements."""
    if kind == FLOAT:
        return load(address)
    if kind == HALF:
        return load_half(address)
    if kind == BFLOAT:
        return load_bfloat(address)
    if kind == INT8:
        return load_bytes(address)
    return load_nibbles(address) - np.float32(8)


@inline
def widen(kind: int, source: int, width: int, target: int, spare: int) -> None:
    """Write ``width`` elements as float32, and zeros up to a multiple of `LANES`.

    Args:
        kind: How they are stored.
        source: Where.
        width: How many.
        target: Where to.
        spare: 64 bytes to work with.
    """
    size, whole = vector_bytes(kind), width // LANES
    if kind == FLOAT:
        for i in range(whole):
            store(target + i * _VECTOR_BYTES, load(source + i * size))
    elif kind == HALF:
        for i in range(whole):
            store(target + i * _VECTOR_BYTES, load_half(source + i * size))
    elif kind == BFLOAT:
        for i in range(whole):
            store(target + i * _VECTOR_BYTES, load_bfloat(source + i * size))
    elif kind == INT8:
        for i in range(whole):
            store(target + i * _VECTOR_BYTES, load_bytes(source + i * size))
    else:
        for i in range(whole):
            store(target + i * _VECTOR_BYTES, load_nibbles(source + i * size) - np.float32(8))
    rest = width - whole * LANES
    if rest:
        part, count = bytes8(spare, _VECTOR_BYTES), (rest * size + LANES - 1) // LANES
        part[:] = 0
        part[:count] = bytes8(source + whole * size, count)
        last = floats(target + whole * _VECTOR_BYTES, LANES)
        store(target + whole * _VECTOR_BYTES, load_kind(kind, spare))
        last[rest:] = 0


@leaf
def widen_row(kind: int, source: int, width: int, target: int, spare: int) -> None:
    """`widen`, compiled once for all who call it."""
    widen(kind, source, width, target, spare)


@inline
def kind_bytes(kind: int, count: int) -> int:
    """Bytes of so many elements."""
    return (count * vector_bytes(kind) + LANES - 1) // LANES
