"""Sliding windows over single planes: depthwise convolution and pooling.

A plane is first laid out with its padding, and once for each phase of the strides, so that each element of a window is
one offset for all windows:

    element k of window o     input  o * stride + k * dilation - pad
    laid out                  phase  (k * dilation) % stride,  place  o + (k * dilation) // stride

Windows of a plane are then neighbours, with a few between rows that nobody wants, and a vector of them is computed at
once in registers.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.function import address, compiled, given, written
from onnxgen.graph.cpu.compiled.movers import mover
from onnxgen.graph.cpu.compiled.patches import OUT, PAD, SIZE, STRIDE
from onnxgen.graph.cpu.compiled.primitives import I32, I64, claim
from onnxgen.graph.cpu.compiled.tile import TileShape, tile_shape

Kind = Literal["sum", "max"]

_FLOAT = np.dtype(np.float32)
_VECTORS = 4


@cache
def sliding(kind: Kind) -> Callable[..., None]:
    """The compiled loop; see `_loop` for its arguments."""
    shape = tile_shape()
    return compiled(
        _loop(shape, kind),
        [
            given(_FLOAT, 2),
            given(_FLOAT, 2),
            given(_FLOAT, 1),
            given(_FLOAT, 2),
            written(_FLOAT, 2),
            given(np.int64, 2),
            given(np.int64, 2),
            given(np.int64, 1),
            given(np.int64, 1),
            types.intp,
            types.intp,
            written(np.int64, 1),
        ],
    )


def _loop(shape: TileShape, kind: Kind) -> Callable[..., None]:
    outside = 0.0 if kind == "sum" else -np.inf
    move, sweep = mover(shape, outside=outside), _sweep(shape, kind)
    chunk, swept = shape.columns, shape.lanes * _VECTORS

    def slide(
        x: Any,
        w: Any,
        bias: Any,
        divisors: Any,
        y: Any,
        axes: Any,
        phases: Any,
        laid: Any,
        offsets: Any,
        planes_each: int,
        parts: int,
        claims: Any,
    ) -> None:
        """One part is a few planes.

        x         float32 [planes, size]
        w         float32 [planes of y or 1, elements]: what ``sum`` multiplies by; ``max`` ignores it
        bias      float32 [planes of y or 1]: what a window starts with
        divisors  float32 [rows, out of the last axis], or [0, 0] for none
        y         float32 [planes * multiplier, rows * out of the last axis]
        axes      int64 [3, 6], see `patches`
        phases    int64 [phases, 3]
        laid      int64 [3]: sizes of a laid out phase
        offsets   int64 [elements]: of a window, in what is laid out
        """
        multiplier = y.shape[0] // x.shape[0]
        depth, height, width = axes[0, SIZE], axes[1, SIZE], axes[2, SIZE]
        out_height, out_width = axes[1, OUT], axes[2, OUT]
        rows = axes[0, OUT] * out_height
        layer, line = laid[1] * laid[2], laid[2]
        places = ((axes[0, OUT] - 1) * laid[1] + out_height - 1) * line + out_width
        space = np.empty(len(phases) * laid[0] * layer + swept, np.float32)
        results = np.empty(places + swept, np.float32)
        stride = axes[2, STRIDE]
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for plane in range(part * planes_each, min(x.shape[0], (part + 1) * planes_each)):
                target = address(space)
                for phase in range(len(phases)):
                    for z in range(laid[0]):
                        at_z = z * axes[0, STRIDE] + phases[phase, 0] - axes[0, PAD]
                        for row in range(laid[1]):
                            at_y = row * axes[1, STRIDE] + phases[phase, 1] - axes[1, PAD]
                            beyond = at_z < 0 or at_z >= depth or at_y < 0 or at_y >= height
                            start = ((plane * depth + at_z) * height + at_y) * width
                            for first in range(0, line, chunk):
                                at_x = first * stride + phases[phase, 2] - axes[2, PAD]
                                move(
                                    target + 4 * first,
                                    address(x) + 4 * (start + at_x),
                                    min(chunk, line - first),
                                    stride,
                                    -at_x,
                                    0 if beyond else width - at_x,
                                )
                            target += 4 * line
                for made in range(plane * multiplier, (plane + 1) * multiplier):
                    weights = address(w) + 4 * (made if len(w) > 1 else 0) * len(offsets)
                    begin = bias[made if len(bias) > 1 else 0]
                    for place in range(0, places, swept):
                        sweep(
                            address(results) + 4 * place,
                            address(space) + 4 * place,
                            address(offsets),
                            weights,
                            len(offsets),
                            begin,
                        )
                    for row in range(rows):
                        at = (row // out_height * laid[1] + row % out_height) * line
                        if len(divisors):
                            found = results[at : at + out_width]
                            wanted = y[made, row * out_width : (row + 1) * out_width]
                            by = divisors[row]
                            for j in range(out_width):
                                wanted[j] = found[j] / by[j]
                            continue
                        for first in range(0, out_width, chunk):
                            length = min(chunk, out_width - first)
                            move(
                                address(y) + 4 * ((made * rows + row) * out_width + first),
                                address(results) + 4 * (at + first),
                                length,
                                1,
                                0,
                                length,
                            )

    return slide


def _sweep(shape: TileShape, kind: Kind) -> Callable[..., None]:
    """``sweep(target, source, offsets, weights, count, begin)``: neighbouring windows at once."""

    @intrinsic
    def sweep(
        _context: Any, target: Any, source: Any, offsets: Any, weights: Any, count: Any, begin: Any
    ) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _generate_sweep(shape.lanes, kind, builder, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5, types.float32), generate

    return sweep


def _generate_sweep(
    lanes: int,
    kind: Kind,
    builder: Any,
    target: Any,
    source: Any,
    offsets: Any,
    weights: Any,
    count: Any,
    begin: Any,
) -> None:
    vector, number = ir.VectorType(ir.FloatType(), lanes), ir.FloatType()
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{lanes}f32"
    )

    def in_all_lanes(value: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

    def place(base: Any, index: int) -> Any:
        return builder.inttoptr(builder.add(base, I64(4 * lanes * index)), vector.as_pointer())

    def larger(old: Any, new: Any) -> Any:
        wins = builder.or_(builder.fcmp_ordered(">", new, old), builder.fcmp_unordered("uno", new, new))
        return builder.select(wins, new, old)

    before = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    first = in_all_lanes(begin)
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(I64)
    step.add_incoming(I64(0), before)
    found = [builder.phi(vector) for _ in range(_VECTORS)]
    far = builder.inttoptr(builder.add(offsets, builder.mul(step, I64(8))), I64.as_pointer())
    base = builder.add(source, builder.mul(builder.load(far, align=8), I64(4)))
    seen = [builder.load(place(base, index), align=4) for index in range(_VECTORS)]
    if kind == "sum":
        near = builder.inttoptr(builder.add(weights, builder.mul(step, I64(4))), number.as_pointer())
        factor = in_all_lanes(builder.load(near, align=4))
        new = [
            builder.call(multiply_add, [factor, value, old]) for value, old in zip(seen, found, strict=True)
        ]
    else:
        new = [larger(old, value) for value, old in zip(seen, found, strict=True)]
    following = builder.add(step, I64(1))
    step.add_incoming(following, loop)
    for old, value in zip(found, new, strict=True):
        old.add_incoming(first, before)
        old.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    for index, value in enumerate(new):
        builder.store(value, place(target, index), align=4)
