"""Sums over a row of floats, in one order whatever the processor: 64 lanes, then these together."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.lane_floats import exact, fma, load, load_first, splat, sum_of
from onnxgen.graph.cpu.compiled.vector_math import LANES

_ZERO = np.float32(0)


@exact
def total(x: int, count: int) -> float:
    """The sum of ``count`` floats at an address."""
    a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
    i = 0
    while i + 4 * LANES <= count:
        at = x + 4 * i
        a, b, c, d = a + load(at), b + load(at + 64), c + load(at + 128), d + load(at + 192)
        i += 4 * LANES
    while i + LANES <= count:
        a += load(x + 4 * i)
        i += LANES
    if i < count:
        b += load_first(x + 4 * i, count - i, _ZERO)
    return sum_of((a + b) + (c + d))


@exact
def squares(x: int, count: int, center: float) -> float:
    """The sum of ``(x - center) ** 2`` over ``count`` floats at an address."""
    a, b, c, d = splat(_ZERO), splat(_ZERO), splat(_ZERO), splat(_ZERO)
    i = 0
    while i + 4 * LANES <= count:
        at = x + 4 * i
        p, q = load(at) - center, load(at + 64) - center
        r, s = load(at + 128) - center, load(at + 192) - center
        a, b, c, d = fma(p, p, a), fma(q, q, b), fma(r, r, c), fma(s, s, d)
        i += 4 * LANES
    while i + LANES <= count:
        p = load(x + 4 * i) - center
        a = fma(p, p, a)
        i += LANES
    if i < count:
        q = load_first(x + 4 * i, count - i, center) - center
        b = fma(q, q, b)
    return sum_of((a + b) + (c + d))
