"""What becomes of the finished sums of a panel: a row's 64 of them are in scratch memory, its results go to ``y``.

plain    y[c] = sum[c]   (+ bias[c])   (y[c] + that: a residual connection)
gated    y[c] = activation(gate[c]) * up[c], where tiles of the gate and of what it gates take turns
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.blocks.format import LANES
from onnxgen.graph.cpu.compiled.lane_floats import (
    at_least,
    exact,
    gelu,
    gelu_tanh,
    load,
    load_first,
    sigmoid,
    silu,
    store,
    store_first,
)

_VECTOR_BYTES = 4 * LANES


@exact
def _relu(x: Any) -> Any:
    return at_least(x, np.float32(0))


@exact
def _relu_squared(x: Any) -> Any:
    positive = at_least(x, np.float32(0))
    return positive * positive


@exact
def _identity(x: Any) -> Any:
    return x


_GATES: dict[str, Any] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": _relu,
    "relu2": _relu_squared,
    "sigmoid": sigmoid,
    "identity": _identity,
}

GATES = tuple(_GATES)
"""Activations of gates, by name; ``gelu`` is the one by the error function."""


def plain_row() -> Callable[..., None]:
    """``end(sums, y, bias, columns, further)``: a row; without bias its address is 0; ``further`` adds to ``y``."""

    @exact
    def end(sums: int, y: int, bias: int, columns: int, further: int) -> None:
        for first in range(0, columns, LANES):
            place, count = first * 4, columns - first
            total = load(sums + place)
            if bias:
                total = total + load_first(bias + place, count, np.float32(0))
            if further:
                total = load_first(y + place, count, np.float32(0)) + total
            if count >= LANES:
                store(y + place, total)
            else:
                store_first(y + place, count, total)

    return end


def gated_row(gate: str) -> Callable[..., None]:
    """``end(sums, y, bias, columns, further)``: half as many columns come out; bias lies like the sums."""
    activation = _GATES[gate]

    @exact
    def end(sums: int, y: int, bias: int, columns: int, further: int) -> None:
        for first in range(0, columns, LANES):
            source, place, count = sums + first * 8, y + first * 4, columns - first
            left, right = load(source), load(source + _VECTOR_BYTES)
            if bias:
                left = left + load(bias + first * 8)
                right = right + load(bias + first * 8 + _VECTOR_BYTES)
            gated = activation(left) * right
            if count >= LANES:
                store(place, gated)
            else:
                store_first(place, count, gated)

    return end
