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
