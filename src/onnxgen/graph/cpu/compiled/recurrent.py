"""Recurrent layers: whole sequences in one loop.

Each step is a product of the hidden state with the recurrent weights, in registers as `products` has it, added to the
input's share that was computed for all steps before; then all gates of an element at once.

A part is one direction of a few sequences of the batch: they know nothing of each other.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.convolution import copy
from onnxgen.graph.cpu.compiled.function import address, compiled, given, inline, written
from onnxgen.graph.cpu.compiled.functions import sigmoid, tanh
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.products import pack_rows
from onnxgen.graph.cpu.compiled.tile import TileShape, tile, tile_shape

Cell = Literal["LSTM", "GRU", "RNN"]

GATES: dict[Cell, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}

_FLOAT = np.dtype(np.float32)


def recurrent_tile(batch: int) -> TileShape:
    """One row of many columns for a sequence alone, else the tile of all products."""
    shape = tile_shape()
    return TileShape(1, shape.lanes, 4) if batch == 1 else shape


@cache
def recurrence(cell: Cell, shape: TileShape) -> Callable[..., None]:
    """The compiled loop; see `_loop` for its arguments."""
    return compiled(
        _loop(cell, shape),
        [
            given(_FLOAT, 4),
            given(_FLOAT, 4),
            given(_FLOAT, 2),
            given(np.bool_, 1),
            given(np.int64, 1),
            types.boolean,
            written(_FLOAT, 4),
            written(_FLOAT, 3),
            written(_FLOAT, 3),
            types.intp,
            types.intp,
            written(np.int64, 1),
        ],
    )


def _loop(cell: Cell, shape: TileShape) -> Callable[..., None]:
    is_lstm, is_gru = cell == "LSTM", cell == "GRU"
    add_product = _product(shape)
    gate_count, tile_rows, tile_columns = GATES[cell], shape.rows, shape.columns

    def run(
        projected: Any,
        r: Any,
        bias: Any,
        reverse: Any,
        lengths: Any,
        linear: bool,
        y: Any,
        h: Any,
        c: Any,
        batch_each: int,
        parts: int,
        claims: Any,
    ) -> None:
        """Run all directions.

        projected  float32 [directions, steps, batch, gates * hidden]: the input's share of each gate
        r          float32 [directions, panels, hidden, tile columns]: recurrent weights; for GRU those of the hidden
                   gate follow the panels of the others
        bias       float32 [directions, hidden]: added to the recurrent share of the hidden gate of GRU
        reverse    bool [directions]
        lengths    int64 [batch]: steps of each sequence
        linear     whether GRU resets after the recurrent weights
        y          float32 [steps, directions, batch, hidden]
        h, c       float32 [directions, batch, hidden]: the states before the first step, then after the last; c for LSTM
        """
        steps, batch = projected.shape[1:3]
        hidden = r.shape[2]
        blocks = (batch + batch_each - 1) // batch_each
        first_gates = 2 * hidden if is_gru else gate_count * hidden
        split = (first_gates + tile_columns - 1) // tile_columns
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            d, first = part // blocks, part % blocks * batch_each
            count = min(batch_each, batch - first)
            gates = np.empty((count, first_gates), np.float32)
            last = np.empty((count, hidden), np.float32)
            state = np.empty((count, hidden), np.float32)
            factors = np.empty((count + tile_rows) * hidden, np.float32)
            for step in range(steps):
                t = steps - 1 - step if reverse[d] else step
                for b in range(count):
                    gates[b] = projected[d, t, first + b, :first_gates]
                    state[b] = h[d, first + b]
                add_product(state, r[d, :split], gates, factors)
                if is_gru:
                    for b in range(count):
                        if linear:
                            last[b] = bias[d]
                        else:
                            last[b] = projected[d, t, first + b, first_gates:]
                            row, reset = state[b], gates[b, hidden:]
                            for j in range(hidden):
                                row[j] = row[j] * sigmoid(reset[j])
                    add_product(state, r[d, split:], last, factors)
                for b in range(count):
                    target, old = y[t, d, first + b], h[d, first + b]
                    if t >= lengths[first + b]:
                        target[:] = 0
                        continue
                    if is_lstm:
                        lstm_step(gates[b], c[d, first + b], target)
                    elif is_gru:
                        after = projected[d, t, first + b, first_gates:] if linear else last[b]
                        gru_step(gates[b], last[b], after, linear, old, target)
                    else:
                        row = gates[b]
                        for j in range(hidden):
                            target[j] = tanh(row[j])
                    old[:] = target

    return run


def _product(shape: TileShape) -> Callable[..., None]:
    multiply = tile(shape)
    rows, columns = shape.rows, shape.columns

    @inline
    def add_product(a: Any, b: Any, c: Any, factors: Any) -> None:
        """Add ``a [batch, depth]`` times ``b [panels, depth, columns]`` to ``c [batch, all columns]``."""
        batch, depth = a.shape
        spare = np.empty((rows, columns), np.float32)
        nothing = np.zeros(rows, np.float32)
        pack_rows(a, factors, rows)
        for panel in range(len(b)):
            column = panel * columns
            right = address(b) + 4 * panel * depth * columns
            for row in range(0, batch, rows):
                left = address(factors) + 4 * row * depth
                if row + rows <= batch and column + columns <= c.shape[1]:
                    target = address(c) + 4 * (row * c.shape[1] + column)
                    multiply(left, right, target, depth, 4 * c.shape[1], address(nothing), False)
                    continue
                edge = c[row : row + rows, column : column + columns]
                copy(edge, spare)
                multiply(left, right, address(spare), depth, 4 * columns, address(nothing), False)
                copy(spare[: edge.shape[0], : edge.shape[1]], edge)

    return add_product


@inline
def lstm_step(gates: Any, cell: Any, hidden: Any) -> None:
    """Gates input, output, forget, cell; ``cell`` moves on, ``hidden`` is written."""
    n = hidden.size
    into, out, forget, new = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
    for j in range(n):
        value = sigmoid(forget[j]) * cell[j] + sigmoid(into[j]) * tanh(new[j])
        cell[j] = value
        hidden[j] = sigmoid(out[j]) * tanh(value)


@inline
def gru_step(gates: Any, recurrent: Any, rest: Any, linear: bool, old: Any, hidden: Any) -> None:
    """Gates update, reset; ``recurrent`` is the hidden gate's share, which with ``linear`` is reset and added to ``rest``."""
    n = hidden.size
    update, reset = gates[:n], gates[n:]
    for j in range(n):
        into = recurrent[j]
        if linear:
            into = rest[j] + sigmoid(reset[j]) * recurrent[j]
        z = sigmoid(update[j])
        new = tanh(into)
        hidden[j] = new + z * (old[j] - new)
