"""Floats to integers with one scale for each group of neighbours.

    scale  float32   largest magnitude / 127 (int8) or / 32767 (int16)
    q                float / scale, rounded to the nearest, ties to even
    sum    int32     of the group's q

Four groups are done at once, so that their scales and sums come out of the lanes together; largest values and sums of
integers are exact, so that the bits do not depend on it. NaN and infinity in a group make its scale so. A group whose
largest magnitude is below 1e-33 is 0.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import exact, place
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES, Vector

LARGEST = {"int8": 127, "int16": 32767}
"""The largest integer of each type of elements."""

_TOGETHER = 4
_SMALLEST = 1e-33
"""Its inverse times 32767 is still a float32."""

_ROUNDING, _ROUNDING_BITS = 12582912.0, 0x4B400000
"""1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer in the low bits."""


def group_quantizer(elements: str, group: int) -> Callable[..., None]:
    """``quantize(source, q, scale, total, groups)``: addresses of the first group of each, and their number.

    Args:
        elements: ``int8`` or ``int16``.
        group: Floats that share a scale, a multiple of 16.
    """
    four, one = (_quantizing(elements, group, count) for count in (_TOGETHER, 1))
    source_bytes, q_bytes = 4 * group, group * (1 if elements == "int8" else 2)

    @exact
    def quantize(source: int, q: int, scale: int, total: int, groups: int) -> None:
        done = 0
        while done + _TOGETHER <= groups:
            four(source + done * source_bytes, q + done * q_bytes, scale + 4 * done, total + 4 * done)
            done += _TOGETHER
        while done < groups:
            one(source + done * source_bytes, q + done * q_bytes, scale + 4 * done, total + 4 * done)
            done += 1

    return quantize


def _quantizing(elements: str, group: int, count: int) -> Any:
    @intrinsic
    def quantize(_context: Any, source: Any, q: Any, scale: Any, total: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _quantize(builder, elements, group, count, *arguments)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp, types.intp), generate

    return quantize


def _quantize(
    b: Any, elements: str, group: int, count: int, source: Any, q: Any, scale: Any, total: Any
) -> None:
    largest, each = float(LARGEST[elements]), group // LANES
    element = ir.IntType(8 if elements == "int8" else 16)

    def at(base: Any, index: int, element_bytes: int, kind: Any) -> Any:
        return place(b, b.add(base, base.type(index * LANES * element_bytes)), kind)

    floats = [b.load(at(source, index, 4, FLOATS), align=4) for index in range(count * each)]
    magnitudes = [b.and_(b.bitcast(x, INTS), _ints(0x7FFFFFFF)) for x in floats]
    peaks = b.bitcast(_by_group(b, _maximum, magnitudes, each), _of_groups(ir.FloatType()))
    _store_first(b, b.fdiv(peaks, _in_groups(largest)), scale, count)
    small = b.fcmp_ordered("<", peaks, _in_groups(_SMALLEST))
    factors = b.select(small, _in_groups(0.0), b.fdiv(_in_groups(largest), peaks))

    integers: list[Any] = []
    for index, x in enumerate(floats):
        lane = ir.Constant(INTS, [index // each] * LANES)
        factor = Vector(b, b.shuffle_vector(factors, ir.Constant(factors.type, ir.Undefined), lane))
        rounded = b.bitcast(Vector(b, x).times_plus(factor, _ROUNDING).value, INTS)
        whole = b.sub(rounded, _ints(_ROUNDING_BITS))
        integers.append(whole)
        kind = ir.VectorType(element, LANES)
        b.store(b.trunc(whole, kind), at(q, index, element.width // 8, kind), align=1)
    _store_first(b, _by_group(b, _sum, integers, each), total, count)


def _ints(value: int) -> Any:
    return ir.Constant(INTS, [value] * LANES)


def _of_groups(element: Any) -> Any:
    return ir.VectorType(element, _TOGETHER)


def _in_groups(value: float) -> Any:
    return ir.Constant(_of_groups(ir.FloatType()), [value] * _TOGETHER)


def _store_first(b: Any, values: Any, address: Any, count: int) -> None:
    """Write one value of the four, or all."""
    value = values if count == _TOGETHER else b.extract_element(values, ir.IntType(32)(0))
    b.store(value, place(b, address, value.type), align=4)


def _sum(b: Any, x: Any, y: Any) -> Any:
    return b.add(x, y)


def _maximum(b: Any, x: Any, y: Any) -> Any:
    name = f"llvm.smax.v{x.type.count}i32"
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(x.type, [x.type] * 2), name)
    return b.call(function, [x, y])


def _by_group(b: Any, combine: Callable[..., Any], vectors: list[Any], each: int) -> Any:
    """All lanes of each group's vectors combined: one lane of four for a group.

    Neighbours are woven into each other: a a a a and b b b b become a b a b, then a b c d in each quarter.
    """
    groups = [
        functools.reduce(functools.partial(combine, b), vectors[first : first + each])
        for first in range(0, len(vectors), each)
    ]
    groups += [_ints(0)] * (_TOGETHER - len(groups))
    first, second = (
        _woven(b, combine, x, y, (0, 16, 1, 17), (2, 18, 3, 19)) for x, y in (groups[:2], groups[2:])
    )
    quarters = _woven(b, combine, first, second, (0, 1, 16, 17), (2, 3, 18, 19))
    for width in (8, 4):
        low, high = (_picked(b, quarters, quarters, range(s, s + width)) for s in (0, width))
        quarters = combine(b, low, high)
    return quarters


def _woven(
    b: Any, combine: Callable[..., Any], x: Any, y: Any, low: tuple[int, ...], high: tuple[int, ...]
) -> Any:
    """Lanes of two vectors side by side, quarter by quarter, half of them combined with the other half."""
    halves = [
        _picked(b, x, y, [quarter + lane for quarter in range(0, LANES, 4) for lane in lanes])
        for lanes in (low, high)
    ]
    return combine(b, *halves)


def _picked(b: Any, x: Any, y: Any, lanes: Any) -> Any:
    indices = list(lanes)
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(indices)), indices))
