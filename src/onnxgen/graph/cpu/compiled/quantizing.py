"""Quantization of a whole tensor by one scale, in one pass."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, written
from onnxgen.graph.cpu.compiled.primitives import claim

PART = 32768
"""Elements of a part."""


@cache
def quantizing(dtype: np.dtype) -> Callable[..., None]:
    """``quantize(x, scale, zero_point, low, high, y, parts, claims)`` into int8 or uint8 ``y [size]``.

    ``x [size]``, the scale, the zero point and the limits are float32; NaN becomes 0, as NumPy has it.
    """

    def quantize(
        x: Any, scale: Any, zero_point: Any, low: Any, high: Any, y: Any, parts: int, claims: Any
    ) -> None:
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            source, target = x[part * PART : (part + 1) * PART], y[part * PART : (part + 1) * PART]
            for i in range(target.size):
                value = np.rint(source[i] / scale) + zero_point
                value = low if value < low else value  # noqa: FURB136 - NaN passes
                value = high if value > high else value  # noqa: FURB136
                whole = np.int32(0) if value != value else np.int32(value)  # noqa: PLR0124
                target[i] = whole

    number = types.float32
    return compiled(
        quantize,
        [
            *(given(np.float32, 1), number, number, number, number, written(dtype, 1)),
            *(types.intp, written(np.int64, 1)),
        ],
    )
