"""The step kernel between the two layers of an expert.

hidden [rows, width]                      y = f(hidden)
hidden [rows, 2 * width], gated           y = f(gate) * up, where a row is its gates before what they gate

swiglu    gate and up within limits, then gate * sigmoid(alpha * gate) * (up + beta); the limit of the gate may come after
others    f of the gate as its name says
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.kernel import float_word, word
from onnxgen.graph.cpu.compiled.lane_floats import (
    at_least,
    exact,
    gelu_tanh,
    load_first,
    quick_gelu,
    silu,
    splat,
    store_first,
)
from onnxgen.graph.cpu.compiled.vector_math import LANES

_ZERO = np.float32(0)


@exact
def _relu(x: Any) -> Any:
    return at_least(x, _ZERO)


@exact
def _relu2(x: Any) -> Any:
    positive = at_least(x, _ZERO)
    return positive * positive


@exact
def _identity(x: Any) -> Any:
    return x


@exact
def _at_most(x: Any, high: Any) -> Any:
    return splat(_ZERO) - at_least(splat(_ZERO) - x, _ZERO - high)


_FUNCTIONS: dict[str, Any] = {
    "relu": _relu,
    "relu2": _relu2,
    "gelu": gelu_tanh,
    "geglu": gelu_tanh,
    "silu": silu,
    "identity": _identity,
}


def activate(*, kind: str, gated: bool, limit_last: bool) -> Callable[[int, int, int, int, int], None]:
    """Parts are any split of the rows.

    Words:

        1, 2, 3   hidden, rows, width of y
        4         y
        5, 6, 7   alpha, beta, limit (float32; infinity for none), of swiglu

    Args:
        kind: ``swiglu`` or the name of another function.
        gated: Whether each row is a gate and what it gates.
        limit_last: swiglu's limit of the gate holds after the activation.
    """
    is_swiglu, function = kind == "swiglu", _FUNCTIONS.get(kind, _identity)

    @exact
    def swiglu(gate: Any, up: Any, alpha: Any, beta: Any, limit: Any) -> Any:
        bounded = at_least(_at_most(up, limit), _ZERO - limit) + beta
        if limit_last:
            return _at_most(quick_gelu(gate, alpha), limit) * bounded
        return quick_gelu(_at_most(gate, limit), alpha) * bounded

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width = word(row, 2), word(row, 3)
        alpha, beta, limit = float_word(row, 5), float_word(row, 6), float_word(row, 7)
        across = 2 * width if gated else width
        for r in range(rows * part // parts, rows * (part + 1) // parts):
            source, target = word(row, 1) + 4 * r * across, word(row, 4) + 4 * r * width
            for j in range(0, width, LANES):
                gate = load_first(source + 4 * j, width - j, _ZERO)
                if gated:
                    up = load_first(source + 4 * (width + j), width - j, _ZERO)
                    y = swiglu(gate, up, alpha, beta, limit) if is_swiglu else function(gate) * up
                else:
                    y = function(gate)
                store_first(target + 4 * j, width - j, y)

    return kernel
