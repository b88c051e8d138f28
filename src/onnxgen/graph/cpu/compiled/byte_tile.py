"""The innermost product of bytes: a few rows times a panel of columns, all sums in registers.

    rows   uint8 [rows, stride]            four neighbours along the depth are one step
    panel  int8 [steps, PANEL, 4]          likewise, four bytes a column
    sums   int32 [rows, PANEL]

Sums are exact (they wrap around as int32 do), so how they are grouped is a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.byte_layout import PANEL, STEP
from onnxgen.graph.cpu.compiled.vectors import (
    BYTES,
    I32,
    I64,
    INTS,
    LANES,
    VECTOR_BYTES,
    dot_bytes,
    every,
    load,
    splat,
    store,
)
from onnxgen.graph.cpu.isa import Isa

_UNROLLED = 2
"""Steps in one turn of the loop; depths are padded to as many."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """What the registers hold.

    Attributes:
        rows: The most rows of a tile.
        vectors: Vectors of sixteen columns.
    """

    rows: int
    vectors: int


def tile_shape(isa: Isa) -> TileShape:
    """24 sums where there are 32 wide registers; elsewhere sixteen lanes fill two or four registers."""
    if isa in (Isa.AVX512_VNNI, Isa.AVX512):
        return TileShape(rows=6, vectors=4)
    return TileShape(rows=2, vectors=2)


def byte_tile(isa: Isa, rows: int, vectors: int) -> Callable[..., None]:
    """``tile(rows, stride, panel, sums, steps)``: addresses, a stride in bytes, a count that is a multiple of 2.

    Columns are the first ``16 * vectors`` of the panel at its address.
    """

    @intrinsic
    def multiply(_context: Any, left: Any, stride: Any, panel: Any, sums: Any, steps: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _generate(builder, isa, rows, vectors, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return multiply


def _generate(
    b: Any, isa: Isa, rows: int, vectors: int, left: Any, stride: Any, panel: Any, sums: Any, steps: Any
) -> None:
    # A row or two have too few sums to hide the latency of one after the other.
    sets = _UNROLLED if rows * vectors <= 8 else 1
    spots = [(each, row, vector) for each in range(sets) for row in range(rows) for vector in range(vectors)]
    before, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
    starts = [b.add(left, b.mul(stride, I64(row))) for row in range(rows)]
    b.branch(loop)

    b.position_at_end(loop)
    step = b.phi(I64)
    step.add_incoming(I64(0), before)
    begun = {spot: b.phi(INTS) for spot in spots}
    totals: dict[tuple[int, int, int], Any] = dict(begun)
    for turn in range(_UNROLLED):
        at = b.add(step, I64(turn))
        columns_at = b.add(panel, b.mul(at, I64(STEP * PANEL)))
        columns = [load(b, b.add(columns_at, I64(VECTOR_BYTES * v)), BYTES) for v in range(vectors)]
        for row in range(rows):
            place = b.add(starts[row], b.mul(at, I64(STEP)))
            four = b.load(b.inttoptr(place, I32.as_pointer()), align=1)
            repeated = b.bitcast(splat(b, four, INTS), BYTES)
            for vector in range(vectors):
                spot = turn % sets, row, vector
                totals[spot] = dot_bytes(b, isa, totals[spot], repeated, columns[vector])
    following = b.add(step, I64(_UNROLLED))
    step.add_incoming(following, b.block)
    for spot in spots:
        begun[spot].add_incoming(every(INTS, 0), before)
        begun[spot].add_incoming(totals[spot], b.block)
    b.cbranch(b.icmp_signed("<", following, steps), loop, done)

    b.position_at_end(done)
    for row in range(rows):
        for vector in range(vectors):
            total = totals[0, row, vector]
            for each in range(1, sets):
                total = b.add(total, totals[each, row, vector])
            store(b, total, b.add(sums, I64(4 * (PANEL * row + LANES * vector))))


def _interleave(_context: Any, source: Any, stride: Any, target: Any, flip: Any) -> Any:
    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        source, stride, target, flip = arguments
        flips = splat(b, b.trunc(flip, ir.IntType(8)), BYTES)
        lines = [b.xor(load(b, b.add(source, b.mul(stride, I64(i))), BYTES), flips) for i in range(STEP)]
        pairs = [_zipped(b, lines[0], lines[2]), _zipped(b, lines[1], lines[3])]
        for half in range(2):
            for part, value in enumerate(_zipped(b, pairs[0][half], pairs[1][half])):
                store(b, value, b.add(target, I64(VECTOR_BYTES * (2 * half + part))))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


def _zipped(b: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Elements of both by turns, as two vectors."""
    count = first.type.count
    orders = [
        [start + place // 2 + (count if place % 2 else 0) for place in range(count)]
        for start in (0, count // 2)
    ]
    low, high = (
        b.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, count), order)) for order in orders
    )
    return low, high


interleave_rows: Any = intrinsic(_interleave)
"""``interleave_rows(source, stride, target, flip)``: four rows of ``PANEL`` bytes as ``[PANEL, 4]``, each byte ``^ flip``."""
