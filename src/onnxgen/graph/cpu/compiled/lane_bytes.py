"""Sixteen float32 from whole numbers in a byte or half of one, and lanes that bytes, bits and bounds hide."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import MASK, in_all_lanes, lanes, place
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES

_BYTE, _SHORT, _LONG = ir.IntType(8), ir.IntType(16), ir.IntType(64)
_BYTES, _LONGS = ir.VectorType(_BYTE, LANES), ir.VectorType(_LONG, LANES)
_HALF = ir.VectorType(_BYTE, LANES // 2)
_HIDDEN = ir.Constant(FLOATS, [-math.inf] * LANES)


def _load_bytes(_context: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.sitofp(builder.load(place(builder, arguments[0], _BYTES), align=1), FLOATS)

    return lanes(types.intp), generate


load_bytes: Any = intrinsic(_load_bytes)
"""16 int8."""


def _load_nibbles(_context: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        packed = builder.load(place(builder, arguments[0], _HALF), align=1)
        low = builder.and_(packed, ir.Constant(_HALF, [15] * (LANES // 2)))
        high = builder.lshr(packed, ir.Constant(_HALF, [4] * (LANES // 2)))
        turns = ir.Constant(INTS, [index // 2 + LANES // 2 * (index % 2) for index in range(LANES)])
        return builder.uitofp(builder.shuffle_vector(low, high, turns), FLOATS)

    return lanes(types.intp), generate


load_nibbles: Any = intrinsic(_load_nibbles)
"""16 unsigned numbers of 4 bits, two in a byte, the first in its low half."""


def _where_set(_context: Any, value: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        value, address = arguments
        flags = builder.load(place(builder, address, _BYTES), align=1)
        seen = builder.icmp_signed("!=", flags, ir.Constant(_BYTES, [0] * LANES))
        return builder.select(seen, value, _HIDDEN)

    return lanes(lanes, types.intp), generate


where_set: Any = intrinsic(_where_set)
"""``where_set(value, address)``: minus infinity in the lanes whose byte there is 0."""


def _where_bits(_context: Any, value: Any, bits: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        value, bits = arguments
        seen = builder.bitcast(builder.trunc(bits, _SHORT), MASK)
        return builder.select(seen, value, _HIDDEN)

    return lanes(lanes, types.intp), generate


where_bits: Any = intrinsic(_where_bits)
"""``where_bits(value, bits)``: minus infinity in the lanes whose bit of the lowest 16 is 0, the first lane's the lowest."""


def _within(_context: Any, value: Any, low: Any, high: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        value, low, high = arguments
        index = ir.Constant(_LONGS, list(range(LANES)))
        after = builder.icmp_signed(">=", index, in_all_lanes(builder, low))
        before = builder.icmp_signed("<", index, in_all_lanes(builder, high))
        return builder.select(builder.and_(after, before), value, _HIDDEN)

    return lanes(lanes, types.intp, types.intp), generate


within: Any = intrinsic(_within)
"""``within(value, low, high)``: minus infinity in the lanes that are not of ``[low, high)``, which may reach beyond them."""
