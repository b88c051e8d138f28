"""The three innermost steps of attention, built with all sums in registers.

strided_tile   c [rows, columns] += a [rows, depth] * b [depth, columns]     scores of many queries; weights times values
dots           scores [rows, keys] = q [rows, width] * k [keys, width]^T     scores of few queries, keys as they lie
transpose      16 x 16
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.primitives import I32, I64
from onnxgen.graph.cpu.compiled.tile import TileShape
from onnxgen.graph.cpu.compiled.vector_math import LANES

_FLOAT, _FLOAT_BYTES = ir.FloatType(), 4
_VECTOR = ir.VectorType(_FLOAT, LANES)


def strided_tile(shape: TileShape) -> Callable[..., None]:
    """``tile(a, a_stride, b, b_stride, c, c_stride, depth, fresh)``: addresses, strides of rows in bytes, a count, a flag.

    ``c`` becomes the product where ``fresh``, and has it added otherwise. ``depth`` is at least 1.
    """

    @intrinsic
    def tile(
        _context: Any,
        a: Any,
        a_stride: Any,
        b: Any,
        b_stride: Any,
        c: Any,
        c_stride: Any,
        depth: Any,
        fresh: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _tile(shape, builder, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7, types.boolean), generate

    return tile


def _tile(
    shape: TileShape,
    builder: Any,
    a: Any,
    a_stride: Any,
    b: Any,
    b_stride: Any,
    c: Any,
    c_stride: Any,
    depth: Any,
    fresh: Any,
) -> None:
    vector = ir.VectorType(_FLOAT, shape.lanes)
    rows, vectors = range(shape.rows), range(shape.vectors)
    old, loop, done = (builder.append_basic_block(name) for name in ("old", "loop", "done"))
    columns = [I64(_FLOAT_BYTES * shape.lanes * index) for index in vectors]
    lefts = [builder.add(a, builder.mul(a_stride, I64(row))) for row in rows]
    targets = [builder.add(c, builder.mul(c_stride, I64(row))) for row in rows]
    before = builder.block
    builder.cbranch(fresh, loop, old)
    builder.position_at_end(old)
    olds = [[_load(builder, builder.add(target, at), vector) for at in columns] for target in targets]
    builder.branch(loop)

    builder.position_at_end(loop)
    step, right = builder.phi(I64), builder.phi(I64)
    sums = [[builder.phi(vector) for _ in vectors] for _ in rows]
    loaded = [_load(builder, builder.add(right, at), vector) for at in columns]
    offset = builder.mul(step, I64(_FLOAT_BYTES))
    new: list[list[Any]] = []
    for row in rows:
        factor = _in_all_lanes(builder, _load(builder, builder.add(lefts[row], offset), _FLOAT), shape.lanes)
        new.append([_multiply_add(builder, factor, loaded[i], sums[row][i]) for i in vectors])
    following, below = builder.add(step, I64(1)), builder.add(right, b_stride)
    for block, first_step, first_right in ((before, I64(0), b), (old, I64(0), b), (loop, following, below)):
        step.add_incoming(first_step, block)
        right.add_incoming(first_right, block)
    for row in rows:
        for index in vectors:
            sums[row][index].add_incoming(ir.Constant(vector, [0.0] * shape.lanes), before)
            sums[row][index].add_incoming(olds[row][index], old)
            sums[row][index].add_incoming(new[row][index], loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)

    builder.position_at_end(done)
    for row in rows:
        for index in vectors:
            _store(builder, new[row][index], builder.add(targets[row], columns[index]))


def dots(rows: int) -> Callable[..., None]:
    """``dots(q, q_stride, k, k_stride, scores, scores_stride, width)`` for 1, 2, 4 or 8 rows and `LANES` / rows keys.

    Addresses, and strides of rows in bytes; ``width`` is a multiple of `LANES`.
    """

    @intrinsic
    def multiply(
        _context: Any,
        q: Any,
        q_stride: Any,
        k: Any,
        k_stride: Any,
        scores: Any,
        scores_stride: Any,
        width: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _dots(rows, builder, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return multiply


def _dots(
    rows: int,
    builder: Any,
    q: Any,
    q_stride: Any,
    k: Any,
    k_stride: Any,
    scores: Any,
    scores_stride: Any,
    width: Any,
) -> None:
    keys = LANES // rows
    lefts = [builder.add(q, builder.mul(q_stride, I64(row))) for row in range(rows)]
    rights = [builder.add(k, builder.mul(k_stride, I64(key))) for key in range(keys)]
    before, loop, done = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(I64)
    sums = [builder.phi(_VECTOR) for _ in range(LANES)]
    offset = builder.mul(step, I64(_FLOAT_BYTES))
    queries = [_load(builder, builder.add(left, offset), _VECTOR) for left in lefts]
    loaded = [_load(builder, builder.add(right, offset), _VECTOR) for right in rights]
    new = [
        _multiply_add(builder, queries[index // keys], loaded[index % keys], sums[index])
        for index in range(LANES)
    ]
    following = builder.add(step, I64(LANES))
    step.add_incoming(I64(0), before)
    step.add_incoming(following, loop)
    for phi, later in zip(sums, new, strict=True):
        phi.add_incoming(ir.Constant(_VECTOR, [0.0] * LANES), before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, width), loop, done)
    builder.position_at_end(done)
    summed = _totals(builder, new)
    for row in range(rows):
        part = _picked(builder, summed, summed, list(range(row * keys, (row + 1) * keys)))
        _store(builder, part, builder.add(scores, builder.mul(scores_stride, I64(row))))


def _totals(builder: Any, vectors: list[Any]) -> Any:
    """The sum of the lanes of each of `LANES` vectors, in its own lane: neighbours are folded into each other's halves."""
    width = LANES
    while len(vectors) > 1:
        half = width // 2
        lower = [start + i for start in range(0, 2 * LANES, width) for i in range(half)]
        upper = [index + half for index in lower]
        vectors = [
            builder.fadd(_picked(builder, x, y, lower), _picked(builder, x, y, upper))
            for x, y in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        width = half
    return vectors[0]


def _transpose(_context: Any, source: Any, source_stride: Any, target: Any, target_stride: Any) -> Any:
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        source, source_stride, target, target_stride = arguments
        rows = [
            _load(builder, builder.add(source, builder.mul(source_stride, I64(row))), _VECTOR)
            for row in range(LANES)
        ]
        # Rows that are ``size`` apart exchange those blocks of ``size`` columns that lie beside the diagonal.
        for size in (8, 4, 2, 1):
            blocks = [column & size for column in range(LANES)]
            lower = [LANES + c - size if other else c for c, other in enumerate(blocks)]
            upper = [LANES + c if other else c + size for c, other in enumerate(blocks)]
            for row in range(LANES):
                if not row & size:
                    x, y = rows[row], rows[row + size]
                    rows[row], rows[row + size] = _picked(builder, x, y, lower), _picked(builder, x, y, upper)
        for index, row in enumerate(rows):
            _store(builder, row, builder.add(target, builder.mul(target_stride, I64(index))))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


transpose: Any = intrinsic(_transpose)
"""``transpose(source, source_stride, target, target_stride)``: `LANES` rows of as many; strides are in bytes."""


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=_FLOAT_BYTES)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=_FLOAT_BYTES)


def _in_all_lanes(builder: Any, value: Any, lanes: int) -> Any:
    kind = ir.VectorType(_FLOAT, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def _picked(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    kind = ir.FunctionType(x.type, [x.type] * 3)
    name = f"llvm.fmuladd.v{x.type.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, z])
