"""Random numbers by counter: Philox 4x64 with 10 rounds (Salmon et al., SC 2011), as NumPy's generator of that name has it."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import exact

DRAW, XTC = 0, 1
"""Purposes of random numbers: which token is drawn; whether XTC excludes."""

_ROUNDS = 10
_WRAP = 1 << 64
# Of 64 bits, written as signed: what compiled code has.
_FACTOR, _OTHER_FACTOR = 0xD2E7470EE14C6C93 - _WRAP, 0xCA5A826395121157 - _WRAP
_WEYL, _OTHER_WEYL = 0x9E3779B97F4A7C15 - _WRAP, 0xBB67AE8584CAA73B - _WRAP
_MANTISSA, _TO_UNIT = (1 << 53) - 1, 2.0**-53


def _high_product(_context: Any, x: Any, y: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        x, y = (builder.zext(value, wide) for value in arguments)
        return builder.trunc(builder.lshr(builder.mul(x, y), wide(64)), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


_high: Any = intrinsic(_high_product)
"""The upper half of the product of two unsigned words."""


@exact
def uniform(seed: int, stream: int, position: int, purpose: int) -> float:
    """The float64 in ``[0, 1)`` at a position of a stream: the first number of ``numpy.random.Philox``.

    Its key is ``seed + (stream << 64)``, its counter ``position + (purpose << 64)``: numbers that are drawn for different
    purposes at one position have nothing to do with each other.
    """
    a, b, c, d = position + 1, purpose, 0, 0
    key, other = seed, stream
    for _ in range(_ROUNDS):
        a, b, c, d = (
            _high(_OTHER_FACTOR, c) ^ b ^ key,
            _OTHER_FACTOR * c,
            _high(_FACTOR, a) ^ d ^ other,
            _FACTOR * a,
        )
        key, other = key + _WEYL, other + _OTHER_WEYL
    return ((a >> 11) & _MANTISSA) * _TO_UNIT
