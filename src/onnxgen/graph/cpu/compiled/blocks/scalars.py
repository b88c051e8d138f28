"""Single numbers that the kernels of blocks read and write."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.compiled.blocks.format import BlockFormat
from onnxgen.graph.cpu.isa import Isa

_KEPT = {(4, 8): 0x00FF00FF, (4, 4): 0x0F0F0F0F, (2, 12): 0x000F000F, (2, 6): 0x03030303}
"""Bits that stay when the halves of packed elements have moved apart, by bits of an element and distance."""


def four_elements(form: BlockFormat) -> Any:
    """An intrinsic ``read(group, step)``: four neighbouring elements of a column, one in each byte of a uint32."""

    @intrinsic
    def read(_context: Any, group: Any, step: Any) -> Any:
        def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
            group, step = arguments
            place = b.add(group, b.mul(step, v.I64(form.bits // 2)))
            value = v.load(b, place, v.ir.IntType(4 * form.bits))
            if form.bits == 8:
                return value
            value = b.zext(value, v.I32)
            for distance in (8, 4) if form.bits == 4 else (12, 6):
                value = b.or_(value, b.shl(value, v.I32(distance)))
                value = b.and_(value, v.I32(_KEPT[form.bits, distance]))
            return value

        return types.uint32(types.intp, types.intp), generate

    return read


def _store_four(_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        v.store(builder, arguments[1], arguments[0])
        return context.get_dummy_value()

    return types.void(types.intp, types.uint32), generate


store_four: Any = intrinsic(_store_four)
"""``store_four(address, value)``: four bytes."""


def half_writer(isa: Isa) -> Any:
    """An intrinsic: the bits of the float16 nearest to a float32."""

    @intrinsic
    def narrow(_context: Any, value: Any) -> Any:
        def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
            bits = v.to_half(b, isa, v.splat(b, arguments[0], v.FLOATS))
            return b.extract_element(bits, v.I32(0))

        return types.uint16(types.float32), generate

    return narrow


def half_reader(isa: Isa) -> Any:
    """An intrinsic: the float32 of the float16 with these bits."""

    @intrinsic
    def widen(_context: Any, bits: Any) -> Any:
        def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
            floats = v.from_half(b, isa, v.splat(b, arguments[0], v.HALVES))
            return b.extract_element(floats, v.I32(0))

        return types.float32(types.uint16), generate

    return widen
