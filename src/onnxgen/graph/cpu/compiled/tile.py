"""The innermost product: a few rows times a few vectors of columns, all sums in registers.

    a [depth, rows]      packed: what each step multiplies lies together
    b [depth, columns]   packed likewise
    c [rows, columns]    its rows are apart by a stride

LLVM keeps the sums in registers only when the loop is written as one over vectors, so it is built here as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.compiled.primitives import I32, I64

_F32, _FLOAT_BYTES = ir.FloatType(), 4


@dataclass(frozen=True, slots=True)
class TileShape:
    """Rows and columns whose sums fit the vector registers.

    Attributes:
        rows: Rows of a tile.
        lanes: Floats in a vector register.
        vectors: Vectors of columns in a tile.
    """

    rows: int
    lanes: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors


@cache
def tile_shape() -> TileShape:
    """The tile of this processor: half or more of its registers are sums, enough to hide a multiply-add's latency."""
    features = detect_cpu().features
    if "avx512f" in features:
        return TileShape(rows=8, lanes=16, vectors=2)
    if "avx" in features:
        return TileShape(rows=4, lanes=8, vectors=2)
    return TileShape(rows=8 if "neon" in features else 4, lanes=4, vectors=2)


def tile(shape: TileShape) -> Callable[..., None]:
    """``tile(a, b, c, depth, stride, bias, first)``: all addresses, a count, a stride in bytes, an address, a flag.

    ``c`` becomes ``bias`` (one float a row) plus the product with ``first``, else its old self plus the product.
    """

    @intrinsic
    def multiply(
        _context: Any, a: Any, b: Any, c: Any, depth: Any, stride: Any, bias: Any, first: Any
    ) -> Any:
        signature = types.void(*[types.intp] * 7)

        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _generate(shape, builder, *arguments)
            return context.get_dummy_value()

        return signature, generate

    return multiply


def _generate(
    shape: TileShape, builder: Any, a: Any, b: Any, c: Any, depth: Any, stride: Any, bias: Any, first: Any
) -> None:
    vector = ir.VectorType(_F32, shape.lanes)
    rows, vectors = range(shape.rows), range(shape.vectors)
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{shape.lanes}f32"
    )
    fresh, further, loop, done = (
        builder.append_basic_block(name) for name in ("fresh", "further", "loop", "done")
    )

    def place(base: Any, offset: Any, kind: Any) -> Any:
        return builder.inttoptr(builder.add(base, offset), kind.as_pointer())

    def load(base: Any, offset: Any, kind: Any) -> Any:
        return builder.load(place(base, offset, kind), align=_FLOAT_BYTES)

    def in_all_lanes(value: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, shape.lanes), [0] * shape.lanes)
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

    spots = [
        [
            builder.add(builder.mul(stride, I64(row)), I64(_FLOAT_BYTES * shape.lanes * index))
            for index in vectors
        ]
        for row in rows
    ]
    builder.cbranch(builder.icmp_signed("!=", first, I64(0)), fresh, further)
    builder.position_at_end(fresh)
    biases = [in_all_lanes(load(bias, I64(_FLOAT_BYTES * row), _F32)) for row in rows]
    builder.branch(loop)
    builder.position_at_end(further)
    old = [[load(c, spots[row][index], vector) for index in vectors] for row in rows]
    builder.branch(loop)

    builder.position_at_end(loop)
    step = builder.phi(I64)
    step.add_incoming(I64(0), fresh)
    step.add_incoming(I64(0), further)
    sums = [[builder.phi(vector) for _ in vectors] for _ in rows]
    left = builder.add(a, builder.mul(step, I64(_FLOAT_BYTES * shape.rows)))
    right = builder.add(b, builder.mul(step, I64(_FLOAT_BYTES * shape.columns)))
    columns = [load(right, I64(_FLOAT_BYTES * shape.lanes * index), vector) for index in vectors]
    following = builder.add(step, I64(1))
    new: list[list[Any]] = []
    for row in rows:
        factor = in_all_lanes(load(left, I64(_FLOAT_BYTES * row), _F32))
        new.append([builder.call(multiply_add, [factor, columns[i], sums[row][i]]) for i in vectors])
    step.add_incoming(following, loop)
    for row in rows:
        for index in vectors:
            sums[row][index].add_incoming(biases[row], fresh)
            sums[row][index].add_incoming(old[row][index], further)
            sums[row][index].add_incoming(new[row][index], loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)

    builder.position_at_end(done)
    for row in rows:
        for index in vectors:
            builder.store(new[row][index], place(c, spots[row][index], vector), align=_FLOAT_BYTES)
