"""Floats in an order that integers have: what arg-max and top-k compare.

A float's key is an int32: larger floats have larger keys, -0 and 0 the same one, and NaN the largest of all, as NumPy's
arg-max has it. No float has the key `NO_KEY`, which is less than all.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import MASK, first_lanes, in_all_lanes, lanes, place
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
NO_KEY = -(1 << 31)
_NAN_KEY = 0x7FFFFFFF


def _keys(builder: Any, x: Any) -> Any:
    """``<16 x i32>`` of a ``<16 x float>``."""
    positive_zero = builder.fadd(x, ir.Constant(FLOATS, [0.0] * LANES))
    bits = builder.bitcast(positive_zero, INTS)
    sign = builder.ashr(bits, ir.Constant(INTS, [31] * LANES))
    key = builder.xor(bits, builder.and_(sign, ir.Constant(INTS, [_NAN_KEY] * LANES)))
    is_nan = builder.fcmp_unordered("uno", x, x)
    return builder.select(is_nan, ir.Constant(INTS, [_NAN_KEY] * LANES), key)


def _largest_key(_context: Any, x: Any, count: Any, allowed: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        x, count, allowed = arguments
        highest = cgutils.alloca_once_value(builder, ir.Constant(INTS, [NO_KEY] * LANES))
        where = cgutils.alloca_once_value(builder, ir.Constant(INTS, [-1] * LANES))
        numbers = ir.Constant(INTS, list(range(LANES)))
        vectors = builder.sdiv(builder.add(count, _I64(LANES - 1)), _I64(LANES))
        with cgutils.for_range(builder, vectors) as loop:
            first = builder.mul(loop.index, _I64(LANES))
            keys, wanted = _keys_and_mask(builder, x, first, count, allowed)
            old = builder.load(highest)
            better = builder.and_(wanted, builder.icmp_signed(">", keys, old))
            index = builder.add(in_all_lanes(builder, builder.trunc(first, _I32)), numbers)
            builder.store(builder.select(better, keys, old), highest)
            builder.store(builder.select(better, index, builder.load(where)), where)
        return _folded(builder, builder.load(highest), builder.load(where))

    return types.int64(types.intp, types.intp, types.intp), generate


largest_key: Any = intrinsic(_largest_key)
"""``largest_key(x, count, allowed)``: the place of the first of the largest floats whose bit is set; -1 where none is.

``x`` is an address of float32, ``allowed`` of uint32 words, the first element in the lowest bit; 0 allows all.
"""


def _keys_and_mask(builder: Any, x: Any, first: Any, count: Any, allowed: Any) -> Any:
    """Keys of a vector that may reach beyond the end, and which of its lanes count."""
    inside = first_lanes(builder, builder.sub(count, first))
    load = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(FLOATS, [FLOATS.as_pointer(), _I32, MASK, FLOATS]),
        f"llvm.masked.load.v{LANES}f32.p0",
    )
    source = place(builder, builder.add(x, builder.mul(first, _I64(4))), FLOATS)
    values = builder.call(load, [source, _I32(4), inside, ir.Constant(FLOATS, [0.0] * LANES)])
    everything = builder.icmp_signed("==", allowed, _I64(0))
    # Without words of bits any readable memory does: the floats themselves.
    words = builder.select(everything, x, builder.add(allowed, builder.sdiv(first, _I64(8))))
    bits = builder.load(place(builder, words, _I16), align=2)
    bits = builder.select(everything, _I16(0xFFFF), bits)
    return _keys(builder, values), builder.and_(inside, builder.bitcast(bits, MASK))


def _folded(builder: Any, keys: Any, places: Any) -> Any:
    """The place of the largest key; of equal ones the first."""
    width = LANES
    while width > 1:
        width //= 2
        (low, high), (left, right) = (
            [
                builder.shuffle_vector(
                    vector,
                    ir.Constant(vector.type, ir.Undefined),
                    ir.Constant(ir.VectorType(_I32, width), list(range(start, start + width))),
                )
                for start in (0, width)
            ]
            for vector in (keys, places)
        )
        # Unsigned, a place of -1 is behind all others.
        tie = builder.and_(builder.icmp_signed("==", low, high), builder.icmp_unsigned("<", left, right))
        first = builder.or_(builder.icmp_signed(">", low, high), tie)
        keys, places = builder.select(first, low, high), builder.select(first, left, right)
    return builder.sext(builder.extract_element(places, _I32(0)), _I64)


def _lanes_above(_context: Any, x: Any, first: Any, count: Any, allowed: Any, key: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        x, first, count, allowed, key = arguments
        keys, wanted = _keys_and_mask(builder, x, first, count, allowed)
        above = builder.icmp_signed(">", keys, in_all_lanes(builder, builder.trunc(key, _I32)))
        return builder.zext(builder.bitcast(builder.and_(wanted, above), _I16), _I64)

    return types.int64(*[types.intp] * 5), generate


lanes_above: Any = intrinsic(_lanes_above)
"""``lanes_above(x, first, count, allowed, key)``: a bit for each of the 16 floats from ``first`` on with a larger key."""


def _lanes_within(_context: Any, x: Any, low: Any, high: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        x, low, high = arguments
        reaches = builder.fcmp_ordered(">=", x, in_all_lanes(builder, low))
        stays = builder.fcmp_ordered("<", x, in_all_lanes(builder, high))
        return builder.zext(builder.bitcast(builder.and_(reaches, stays), _I16), _I64)

    return types.int64(lanes, types.float32, types.float32), generate


lanes_within: Any = intrinsic(_lanes_within)
"""``lanes_within(x, low, high)``: a bit for each of 16 floats from ``low`` on and below ``high``."""


def _key_of(_context: Any, value: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        keys = _keys(builder, in_all_lanes(builder, arguments[0]))
        return builder.sext(builder.extract_element(keys, _I32(0)), _I64)

    return types.int64(types.float32), generate


key_of: Any = intrinsic(_key_of)
"""The key of a float32."""


def _lowest_bit(_context: Any, bits: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


lowest_bit: Any = intrinsic(_lowest_bit)
"""The place of the lowest bit that is set; there must be one."""
