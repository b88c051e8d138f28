"""Copies of a few neighbours, with something else where the source has no elements."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.primitives import I32, I64
from onnxgen.graph.cpu.compiled.tile import TileShape


def mover(shape: TileShape, *, outside: float) -> Callable[..., None]:
    """``move(target, source, length, stride, begin, end)``: addresses and counts of float32.

    ``target[j]`` for ``j < length``, at most a tile's columns, becomes ``source[j * stride]`` where ``begin <= j * stride <
    end``, else ``outside``; nothing else is touched or read. ``begin`` and ``end`` may be anything.
    """
    neighbours, every_second, one = (
        _lane_mover(shape, 1, outside),
        _lane_mover(shape, 2, outside),
        _one_mover(outside),
    )
    masks = shape.lanes >= _LANES_WITH_MASKS

    @inline
    def move(target: int, source: int, length: int, stride: int, begin: int, end: int) -> None:
        if masks and stride == 1:
            neighbours(target, source, begin, end, length)
        elif masks and stride == 2:
            every_second(target, source, begin, end, length)
        else:
            for j in range(length):
                one(target + 4 * j, source + 4 * j * stride, begin <= j * stride < end)

    return move


_LANES_WITH_MASKS = 8
"""Processors with fewer lanes have no masked loads and stores."""


def _one_mover(outside: float) -> Callable[..., None]:
    @intrinsic
    def move_one(_context: Any, target: Any, source: Any, inside: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            to, origin, is_inside = arguments
            pointer, other = ir.FloatType().as_pointer(), ir.Constant(ir.FloatType(), outside)
            with builder.if_else(is_inside) as (copying, clearing):
                with copying:
                    builder.store(
                        builder.load(builder.inttoptr(origin, pointer)), builder.inttoptr(to, pointer)
                    )
                with clearing:
                    builder.store(other, builder.inttoptr(to, pointer))
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.boolean), generate

    return move_one


def _lane_mover(shape: TileShape, stride: int, outside: float) -> Callable[..., None]:
    @intrinsic
    def move_lanes(_context: Any, target: Any, source: Any, begin: Any, end: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            for first in range(0, shape.columns, shape.lanes):
                _move_lanes(builder, shape.lanes, first, stride, outside, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return move_lanes


def _move_lanes(
    builder: Any,
    lanes: int,
    first: int,
    stride: int,
    outside: float,
    target: Any,
    source: Any,
    begin: Any,
    end: Any,
    length: Any,
) -> None:
    """One vector, from column ``first`` on: masked loads, as many as the stride, and one masked store."""
    vector, mask = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(ir.IntType(1), lanes)
    others = ir.Constant(vector, [outside] * lanes)
    load = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector.as_pointer(), I32, mask, vector]),
        f"llvm.masked.load.v{lanes}f32.p0",
    )
    store = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [vector, vector.as_pointer(), I32, mask]),
        f"llvm.masked.store.v{lanes}f32.p0",
    )

    def in_all_lanes(value: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(I32, lanes), ir.Undefined)
        one = builder.insert_element(undefined, builder.trunc(value, I32), I32(0))
        return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))

    def numbers(values: list[int]) -> Any:
        return ir.Constant(ir.VectorType(I32, lanes), values)

    def place(base: Any, element: int) -> Any:
        return builder.inttoptr(builder.add(base, I64(4 * element)), vector.as_pointer())

    parts: list[Any] = []
    for part in range(stride):
        elements = [first * stride + part * lanes + lane for lane in range(lanes)]
        inside = builder.and_(
            builder.icmp_signed(">=", numbers(elements), in_all_lanes(begin)),
            builder.icmp_signed("<", numbers(elements), in_all_lanes(end)),
        )
        wanted = ir.Constant(mask, [element % stride == 0 for element in elements])
        seen = builder.and_(inside, wanted)
        parts.append(builder.call(load, [place(source, elements[0]), I32(4), seen, others]))
    value = parts[0]
    if stride == 2:
        evens = ir.Constant(ir.VectorType(I32, lanes), [2 * lane for lane in range(lanes)])
        value = builder.shuffle_vector(parts[0], parts[1], evens)
    touched = builder.icmp_signed("<", numbers([first + lane for lane in range(lanes)]), in_all_lanes(length))
    builder.call(store, [value, place(target, first), I32(4), touched])
