"""Rows of heads on their way: read in any float type, normed, rotated, and written where and as they are kept."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, inline, leaf, lives_until_here, written
from onnxgen.graph.cpu.compiled.kernel import floats, ints64
from onnxgen.graph.cpu.compiled.lane_floats import fma, load, splat, store, sum_of
from onnxgen.graph.cpu.compiled.narrowing import narrow_row
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.vector_math import LANES
from onnxgen.graph.cpu.compiled.widening import FLOAT, kind_bytes, widen_row

HEADS = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                *("source", "source_batch", "source_row", "source_head", "source_kind"),
                *("target", "target_batch", "target_row", "target_head", "target_kind"),
                *("batch", "seq", "heads", "dim", "places", "scale", "weight"),
                *("cos", "sin", "table_kind", "positions", "half", "offset", "interleaved"),
            )
        ),
        ("epsilon", np.float32),
    ]
)
"""One tensor ``[batch, seq, heads, dim]``, and what becomes of it; addresses, and strides in bytes.

Token i of a batch goes to row ``places[batch, i]`` (int64, nowhere where negative), or to row i without. Kinds are those
of `widening`; whole numbers are quotients by ``scale`` (float32 ``[heads, dim]``). With ``weight`` (float32 ``[dim]``) a row
is divided by the root of its mean square and multiplied. With ``cos`` and ``sin`` (``[positions, half]`` of
``table_kind``), ``2 * half`` elements from ``offset`` on are rotated by the angles of row ``positions[batch, i]``. A target may
be its own source.
"""

_BYTES = 4
_VECTOR_BYTES = _BYTES * LANES


@cache
def move_heads() -> Callable[..., None]:
    """``move(tensors, tokens_each, parts_each, parts, claims)``: parts are so many tokens of one of the `HEADS`."""

    def move(tensors: Any, tokens_each: int, parts_each: int, parts: int, claims: Any) -> None:
        most = 2 * LANES
        for i in range(len(tensors)):
            most = max(most, tensors[i].dim + LANES, 2 * tensors[i].half + 2 * LANES)
        memory = np.empty(4 * most + 4 * LANES, np.float32)
        row = (address(memory) + _VECTOR_BYTES - 1) // _VECTOR_BYTES * _VECTOR_BYTES
        spare = row + _BYTES * LANES * ((most + LANES - 1) // LANES)
        cos = spare + _VECTOR_BYTES
        sin = cos + _BYTES * most
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            tensor = tensors[part // parts_each]
            first = part % parts_each * tokens_each
            for token in range(first, min(first + tokens_each, tensor.batch * tensor.seq)):
                _move_token(tensor, token, row, spare, cos, sin)
        lives_until_here(memory)

    return compiled(move, [written(HEADS, 1), types.intp, types.intp, types.intp, written(np.int64, 1)])


@leaf
def _move_token(tensor: Any, token: int, row: int, spare: int, cos: int, sin: int) -> None:
    batch, index = token // tensor.seq, token % tensor.seq
    place = ints64(tensor.places, token + 1)[token] if tensor.places else index
    if place < 0:
        return
    if tensor.half:
        position = ints64(tensor.positions, token + 1)[token]
        start = position * kind_bytes(tensor.table_kind, tensor.half)
        widen_row(tensor.table_kind, tensor.cos + start, tensor.half, cos, spare)
        widen_row(tensor.table_kind, tensor.sin + start, tensor.half, sin, spare)
    source = tensor.source + batch * tensor.source_batch + index * tensor.source_row
    target = tensor.target + batch * tensor.target_batch + place * tensor.target_row
    plain = tensor.source_kind == FLOAT and tensor.target_kind == FLOAT and tensor.weight == 0
    rotates_all = tensor.half and 2 * tensor.half == tensor.dim and tensor.half % LANES == 0
    if plain and rotates_all and not tensor.interleaved:
        for head in range(tensor.heads):
            _rotate(
                source + head * tensor.source_head,
                target + head * tensor.target_head,
                cos,
                sin,
                tensor.half,
                0,
            )
        return
    for head in range(tensor.heads):
        widen_row(tensor.source_kind, source + head * tensor.source_head, tensor.dim, row, spare)
        if tensor.weight:
            _norm(row, tensor.dim, tensor.weight, tensor.epsilon)
        if tensor.half:
            turned = row + _BYTES * tensor.offset
            _rotate(turned, turned, cos, sin, tensor.half, tensor.interleaved)
        scale = tensor.scale + _BYTES * head * tensor.dim if tensor.scale else 0
        narrow_row(tensor.target_kind, row, tensor.dim, scale, target + head * tensor.target_head)


@inline
def _norm(row: int, dim: int, weight: int, epsilon: Any) -> None:
    """What lies beyond ``dim`` is 0."""
    squares = splat(np.float32(0))
    for at in range(row, row + _BYTES * dim, _VECTOR_BYTES):
        squares = fma(load(at), load(at), squares)
    inverse = np.float32(1) / np.sqrt(sum_of(squares) / np.float32(dim) + epsilon)
    values, weights = floats(row, dim), floats(weight, dim)
    for i in range(dim):
        values[i] = values[i] * inverse * weights[i]


@inline
def _rotate(row: int, target: int, cos: int, sin: int, half: int, interleaved: int) -> None:
    """Rotate the pairs of a row, into another one or itself."""
    values, result = floats(row, 2 * half), floats(target, 2 * half)
    cosines, sines = floats(cos, half), floats(sin, half)
    if interleaved:
        for i in range(half):
            x, y = values[2 * i], values[2 * i + 1]
            result[2 * i] = x * cosines[i] - y * sines[i]
            result[2 * i + 1] = y * cosines[i] + x * sines[i]
        return
    whole = half // LANES * LANES
    for at in range(0, _BYTES * whole, _VECTOR_BYTES):
        first, second = load(row + at), load(row + _BYTES * half + at)
        c, s = load(cos + at), load(sin + at)
        store(target + at, first * c - second * s)
        store(target + _BYTES * half + at, second * c + first * s)
    for i in range(whole, half):
        x, y = values[i], values[half + i]
        result[i] = x * cosines[i] - y * sines[i]
        result[half + i] = y * cosines[i] + x * sines[i]
