"""Functions of each element of an array, in one pass."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled import functions
from onnxgen.graph.cpu.compiled.function import address, compiled, given, written
from onnxgen.graph.cpu.compiled.primitives import claim

Function = Literal[
    "gelu",
    "gelu_tanh",
    "logistic",
    "swish",
    "relu",
    "leaky_relu",
    "between",
    "hard_sigmoid",
    "hard_swish",
]

PART = 16384
"""Elements of a part."""

_PIECE = 1024
"""Elements that are copied first, so that the output may be the input's memory and loops still run in vectors."""

_FLOAT = np.dtype(np.float32)


@cache
def mapping(name: Function) -> Callable[..., None]:
    """``map(x, y, alpha, beta, parts, claims)``: float32 ``[size]`` both, which may be the same memory."""
    return compiled(
        _loop(getattr(functions, name)),
        [
            given(_FLOAT, 1),
            written(_FLOAT, 1),
            types.float32,
            types.float32,
            types.intp,
            written(np.int64, 1),
        ],
    )


def _loop(function: Callable[[Any, Any, Any], Any]) -> Callable[..., None]:
    def apply(x: Any, y: Any, alpha: Any, beta: Any, parts: int, claims: Any) -> None:
        piece = np.empty(_PIECE, np.float32)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for start in range(part * PART, min(x.size, (part + 1) * PART), _PIECE):
                source = x[start : start + _PIECE]
                target = y[start : start + _PIECE]
                for i in range(source.size):
                    piece[i] = source[i]
                for i in range(target.size):
                    target[i] = function(piece[i], alpha, beta)

    return apply
