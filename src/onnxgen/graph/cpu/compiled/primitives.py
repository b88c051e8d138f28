"""Instructions that Python has no words for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)


def _claim(_context: Any, counter: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", place, I64(1), "monotonic")

    return types.intp(types.intp), generate


claim: Any = intrinsic(_claim)
"""``claim(address)``: the old value of the int64 there, which becomes one more; no two threads get the same."""


def _power_of_two(_context: Any, exponent: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        biased = builder.add(builder.fptosi(arguments[0], I32), I32(127))
        return builder.bitcast(builder.shl(biased, I32(23)), ir.FloatType())

    return types.float32(types.float32), generate


power_of_two: Any = intrinsic(_power_of_two)
"""``2 ** n`` in float32 for a whole n from -126 to 127."""


def _half_bits(_context: Any, value: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


half_bits: Any = intrinsic(_half_bits)
"""The bits of the float16 nearest to a float32."""


def _from_half_bits(_context: Any, bits: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


from_half_bits: Any = intrinsic(_from_half_bits)
"""The float32 of the float16 with these bits."""
