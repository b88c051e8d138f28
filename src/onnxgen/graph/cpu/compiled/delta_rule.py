"""The recurrence of linear attention, token by token, with each state in the cache.

Columns of a state know nothing of each other, so a part is a panel of them for one head of one sequence. While a token
updates the panel, row by row, its output and what the next token's key will find there are summed up: the state is read
and written once a token.

    row i of the state    S = S * decay[i] + key[i] * update
    output                o = o + query[i] * S
    found by the next     f = f + next_key[i] * next_decay[i] * S        update of the next: beta * (value - f)
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import (
    address,
    compiled,
    given,
    inline,
    leaf,
    lives_until_here,
    written,
)
from onnxgen.graph.cpu.compiled.kernel import floats
from onnxgen.graph.cpu.compiled.lane_floats import exp, fma, load, load_first, splat, store, store_first
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.vector_math import LANES

PANEL = 4 * LANES
"""Columns of a state that pass together."""

_BYTES = 4
_VECTOR_BYTES = _BYTES * LANES
_ZERO, _ONE = np.float32(0), np.float32(1)


@cache
def recurrence() -> Callable[..., None]:
    """``recur(past, state, query, key, value, decay, beta, scale, bounds, y, states, added, captures, parts, claims)``.

    past      float32 [sequences, heads, head_dim, v_head_dim]
    state     likewise: what becomes of it
    query     float32 [tokens, q_heads, head_dim]; one of q_heads and heads is a multiple of the other
    key       float32 [tokens, k_heads, head_dim]; heads is a multiple of k_heads
    value     float32 [tokens, heads, v_head_dim]
    decay     float32 [tokens, heads, 1 or head_dim], in log space; without tokens for none
    beta      float32 [tokens, 1 or heads]; without tokens where values are not corrected
    scale     float32, of queries
    bounds    int64 [sequences + 1]: where sequences begin among the tokens, and where the last one ends
    y         float32 [tokens, max(q_heads, heads), v_head_dim]
    states    float32 [window, sequences, heads, head_dim, v_head_dim]: after each of the last tokens of a sequence
    added     float32 [sequences, capacity, heads, v_head_dim]: updates of the first tokens of a sequence
    captures  int64 [sequences]: of how many
    """

    def recur(
        past: Any,
        state: Any,
        query: Any,
        key: Any,
        value: Any,
        decay: Any,
        beta: Any,
        scale: Any,
        bounds: Any,
        y: Any,
        states: Any,
        added: Any,
        captures: Any,
        parts: int,
        claims: Any,
    ) -> None:
        _, heads, dim, width = state.shape
        room = (dim + LANES - 1) // LANES * LANES
        memory = np.empty(dim * PANEL + 8 * room + 3 * PANEL + LANES, np.float32)
        rows = (address(memory) + _VECTOR_BYTES - 1) // _VECTOR_BYTES * _VECTOR_BYTES
        factors = rows + _BYTES * dim * PANEL  # of two tokens in turn: decay, key, query, key times decay
        update = factors + _BYTES * 8 * room
        found, output = update + _BYTES * PANEL, update + _BYTES * 2 * PANEL
        panels, group = (width + PANEL - 1) // PANEL, max(1, query.shape[1] // heads)
        row_bytes = _BYTES * width
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            column, rest = part % panels * PANEL, part // panels
            head, index = rest % heads, rest // heads
            columns = min(PANEL, width - column)
            first, last = bounds[index], bounds[index + 1]
            place = _BYTES * ((index * heads + head) * dim * width + column)
            before, after = address(past) + place, address(state) + place
            source, source_row = before, row_bytes
            if columns < PANEL or first == last:
                _copy_rows(before, row_bytes, rows, _BYTES * PANEL, dim, columns)
                source, source_row = rows, _BYTES * PANEL
            if first < last:
                _take(query, key, decay, scale, first, head, heads, factors, room)
                _find(source, source_row, dim, factors + _BYTES * 3 * room, found)
            for token in range(first, last):
                now = factors + _BYTES * 4 * room * ((token - first) % 2)
                then = factors + _BYTES * 4 * room * ((token - first + 1) % 2)
                if token + 1 < last:
                    _take(query, key, decay, scale, token + 1, head, heads, then, room)
                value_at = address(value) + _BYTES * ((token * heads + head) * width + column)
                corrects = len(beta) > 0
                rate = beta[token, head % beta.shape[1]] if corrects else _ONE
                _update(value_at, columns, found, rate, corrects, update)
                if token - first < captures[index]:
                    at = ((index * added.shape[1] + token - first) * heads + head) * width + column
                    _copy_rows(update, 0, address(added) + _BYTES * at, 0, 1, columns)
                target, target_row = rows, np.intp(_BYTES * PANEL)
                if token + 1 == last and columns == PANEL:
                    target, target_row = after, row_bytes
                _pass(source, source_row, target, target_row, dim, now, then, room, update, found, output)
                source, source_row = target, target_row
                for g in range(group):
                    if g:
                        _read_query(query, token, head * group + g, scale, now + _BYTES * 2 * room)
                        _find(source, source_row, dim, now + _BYTES * 2 * room, output)
                    at = (token * y.shape[1] + head * group + g) * width + column
                    _copy_rows(output, 0, address(y) + _BYTES * at, 0, 1, columns)
                slot = len(states) + token - last
                if slot >= 0:
                    at = ((slot * len(state) + index) * heads + head) * dim * width + column
                    _copy_rows(source, source_row, address(states) + _BYTES * at, row_bytes, dim, columns)
            if source != after:
                _copy_rows(source, source_row, after, row_bytes, dim, columns)
        lives_until_here(memory)

    floating = np.dtype(np.float32)
    return compiled(
        recur,
        [
            *(given(floating, 4), written(floating, 4)),
            *(given(floating, 3), given(floating, 3), given(floating, 3), given(floating, 3)),
            *(given(floating, 2), types.float32, given(np.int64, 1)),
            *(written(floating, 3), written(floating, 5), written(floating, 4), given(np.int64, 1)),
            *(types.intp, written(np.int64, 1)),
        ],
    )


@leaf
def _take(
    query: Any, key: Any, decay: Any, scale: Any, token: int, head: int, heads: int, factors: int, room: int
) -> None:
    """Write what a token multiplies rows with, ``[4, room]``: its decay, key, query, and key times decay."""
    dim = key.shape[2]
    _read_query(query, token, head * query.shape[1] // heads, scale, factors + _BYTES * 2 * room)
    keys = floats(address(key) + _BYTES * dim * (token * key.shape[1] + head * key.shape[1] // heads), dim)
    kept, taken = floats(factors, dim), floats(factors + _BYTES * room, dim)
    found = floats(factors + _BYTES * 3 * room, dim)
    if len(decay) == 0:
        kept[:] = _ONE
    elif decay.shape[2] == 1:
        kept[:] = np.exp(decay[token, head, 0])
    else:
        start = address(decay) + _BYTES * dim * (token * heads + head)
        for i in range(0, dim, LANES):
            store(factors + _BYTES * i, exp(load_first(start + _BYTES * i, dim - i, _ZERO)))
    for i in range(dim):
        taken[i] = keys[i]
        found[i] = keys[i] * kept[i]


@inline
def _read_query(query: Any, token: int, head: int, scale: Any, target: int) -> None:
    dim = query.shape[2]
    source = floats(address(query) + _BYTES * dim * (token * query.shape[1] + head), dim)
    scaled = floats(target, dim)
    for i in range(dim):
        scaled[i] = source[i] * scale


@leaf
def _find(source: int, row_bytes: int, dim: int, factors: int, result: int) -> None:
    """The sum of the rows of a panel, each times its factor."""
    weights = floats(factors, dim)
    f0 = f1 = f2 = f3 = splat(_ZERO)
    for i in range(dim):
        at, weight = source + i * row_bytes, splat(weights[i])
        f0, f1 = fma(weight, load(at), f0), fma(weight, load(at + _VECTOR_BYTES), f1)
        f2 = fma(weight, load(at + 2 * _VECTOR_BYTES), f2)
        f3 = fma(weight, load(at + 3 * _VECTOR_BYTES), f3)
    _store_four(result, f0, f1, f2, f3)


@inline
def _store_four(address: int, x0: Any, x1: Any, x2: Any, x3: Any) -> None:
    store(address, x0)
    store(address + _VECTOR_BYTES, x1)
    store(address + 2 * _VECTOR_BYTES, x2)
    store(address + 3 * _VECTOR_BYTES, x3)


@leaf
def _update(value: int, columns: int, found: int, rate: Any, corrects: bool, update: int) -> None:
    """What a token adds to a panel, for each of its columns."""
    for i in range(0, PANEL, LANES):
        values = load_first(value + _BYTES * i, columns - i, _ZERO) if columns > i else splat(_ZERO)
        if corrects:
            values = splat(rate) * (values - load(found + _BYTES * i))
        store(update + _BYTES * i, values)


@leaf
def _pass(
    source: int,
    source_row: int,
    target: int,
    target_row: int,
    dim: int,
    now: int,
    then: int,
    room: int,
    update: int,
    found: int,
    output: int,
) -> None:
    """A token changes a panel, reads its output from it, and finds what the next one's key is answered."""
    kept, keys = floats(now, dim), floats(now + _BYTES * room, dim)
    queries, following = floats(now + _BYTES * 2 * room, dim), floats(then + _BYTES * 3 * room, dim)
    u0, u1 = load(update), load(update + _VECTOR_BYTES)
    u2, u3 = load(update + 2 * _VECTOR_BYTES), load(update + 3 * _VECTOR_BYTES)
    o0 = o1 = o2 = o3 = f0 = f1 = f2 = f3 = splat(_ZERO)
    for i in range(dim):
        at = source + i * source_row
        keep, key, query, follow = splat(kept[i]), splat(keys[i]), splat(queries[i]), splat(following[i])
        s0, s1 = fma(load(at), keep, key * u0), fma(load(at + _VECTOR_BYTES), keep, key * u1)
        s2 = fma(load(at + 2 * _VECTOR_BYTES), keep, key * u2)
        s3 = fma(load(at + 3 * _VECTOR_BYTES), keep, key * u3)
        _store_four(target + i * target_row, s0, s1, s2, s3)
        o0, o1, o2, o3 = fma(query, s0, o0), fma(query, s1, o1), fma(query, s2, o2), fma(query, s3, o3)
        f0, f1, f2, f3 = fma(follow, s0, f0), fma(follow, s1, f1), fma(follow, s2, f2), fma(follow, s3, f3)
    _store_four(output, o0, o1, o2, o3)
    _store_four(found, f0, f1, f2, f3)


@leaf
def _copy_rows(source: int, source_row: int, target: int, target_row: int, count: int, columns: int) -> None:
    """Copy ``columns`` floats, at most `PANEL`, of each of ``count`` rows."""
    for i in range(count):
        for column in range(0, columns, LANES):
            values = load_first(source + i * source_row + _BYTES * column, columns - column, _ZERO)
            store_first(target + i * target_row + _BYTES * column, columns - column, values)
