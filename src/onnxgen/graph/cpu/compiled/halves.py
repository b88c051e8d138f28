"""Conversions between float32 and float16 by the processor's own instructions."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, written
from onnxgen.graph.cpu.compiled.primitives import claim, from_half_bits, half_bits

PART = 65536
"""Elements of a part."""


@cache
def conversion(*, to_half: bool) -> Callable[..., None]:
    """``convert(x, y, parts, claims)``: ``[size]`` both, float16 as its bits in uint16."""
    one = half_bits if to_half else from_half_bits

    def convert(x: Any, y: Any, parts: int, claims: Any) -> None:
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            source, target = x[part * PART : (part + 1) * PART], y[part * PART : (part + 1) * PART]
            for i in range(source.size):
                target[i] = one(source[i])

    source, target = (np.float32, np.uint16) if to_half else (np.uint16, np.float32)
    return compiled(convert, [given(source, 1), written(target, 1), types.intp, written(np.int64, 1)])
