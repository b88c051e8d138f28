"""The innermost product of floats: a few rows times vectors of a panel's columns, all sums in registers.

    x     float32 [rows, depth], rows apart by a stride
    panel         [depth, 64]    float32, float16 or bfloat16, widened as it is read
    sums  float32 [rows, 64]

Each sum runs over the depth in order, one multiply-add after the other, whatever the tile: the bits of a row do not depend on
the rows that are computed with it, nor on where the depth is cut.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.float_layout import PANEL_COLUMNS
from onnxgen.graph.cpu.compiled.lane_halves import ELEMENT_BYTES, widened
from onnxgen.graph.cpu.compiled.vectors import (
    F32,
    FLOATS,
    HALVES,
    I64,
    LANES,
    fma,
    load,
    prefetch,
    splat,
    store,
)
from onnxgen.graph.cpu.isa import Isa

_AHEAD_BYTES = 4096
"""How far before its use a panel is asked for."""

SUM_BYTES = 4 * PANEL_COLUMNS
"""Of the sums of a row."""


@dataclass(frozen=True, slots=True)
class FloatTile:
    """What fits the vector registers.

    Attributes:
        rows: The most rows of a tile.
        vectors: Vectors of 16 columns in a tile: 1, 2 or 4.
    """

    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * LANES


_TILES = {
    Isa.AVX512_VNNI: FloatTile(6, 4),
    Isa.AVX512: FloatTile(6, 4),
    Isa.AVX_VNNI: FloatTile(6, 1),
    Isa.AVX2: FloatTile(6, 1),
    Isa.NEON_DOTPROD: FloatTile(6, 1),
    Isa.GENERIC: FloatTile(3, 1),
}


def tile_of(isa: Isa) -> FloatTile:
    """The tile of an instruction set."""
    return _TILES[isa]


def float_tile(rows: int, vectors: int, elements: str, isa: Isa) -> Callable[..., None]:
    """``tile(x, x_stride, panel, depth, sums, fresh)``: addresses, a stride in bytes, a count of 1 or more.

    ``fresh`` not 0: the sums begin with 0, else with what is there.
    """

    @intrinsic
    def multiply(_context: Any, x: Any, x_stride: Any, panel: Any, depth: Any, sums: Any, fresh: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _generate(builder, rows, vectors, elements, isa, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return multiply


def _generate(
    b: Any,
    rows: int,
    vectors: int,
    elements: str,
    isa: Isa,
    x: Any,
    x_stride: Any,
    panel: Any,
    depth: Any,
    sums: Any,
    fresh: Any,
) -> None:
    element_bytes = ELEMENT_BYTES[elements]

    def place(row: int, vector: int) -> Any:
        return b.add(sums, I64(row * SUM_BYTES + vector * LANES * 4))

    def column_vector(address: Any) -> Any:
        if elements == "float32":
            return load(b, address, FLOATS)
        return widened(b, isa, elements, load(b, address, HALVES))

    before = b.block
    further, loop, done = (b.append_basic_block(name) for name in ("further", "loop", "done"))
    starts = [b.add(x, b.mul(x_stride, I64(row))) for row in range(rows)]
    b.cbranch(b.icmp_signed("!=", fresh, I64(0)), loop, further)
    b.position_at_end(further)
    old = [[load(b, place(row, v), FLOATS) for v in range(vectors)] for row in range(rows)]
    b.branch(loop)

    b.position_at_end(loop)
    step = b.phi(I64)
    totals = [[b.phi(FLOATS) for _ in range(vectors)] for _ in range(rows)]
    line = b.add(panel, b.mul(step, I64(PANEL_COLUMNS * element_bytes)))
    for ahead in range(0, vectors * LANES * element_bytes, 64):
        prefetch(b, b.add(line, I64(_AHEAD_BYTES + ahead)))
    columns = [column_vector(b.add(line, I64(v * LANES * element_bytes))) for v in range(vectors)]
    new: list[list[Any]] = []
    for row in range(rows):
        factor = splat(b, load(b, b.add(starts[row], b.mul(step, I64(4))), F32), FLOATS)
        new.append([fma(b, isa, factor, columns[v], totals[row][v]) for v in range(vectors)])
    following = b.add(step, I64(1))
    step.add_incoming(I64(0), before)
    step.add_incoming(I64(0), further)
    step.add_incoming(following, loop)
    for row in range(rows):
        for v in range(vectors):
            totals[row][v].add_incoming(ir.Constant(FLOATS, [0.0] * LANES), before)
            totals[row][v].add_incoming(old[row][v], further)
            totals[row][v].add_incoming(new[row][v], loop)
    b.cbranch(b.icmp_signed("<", following, depth), loop, done)

    b.position_at_end(done)
    for row in range(rows):
        for v in range(vectors):
            store(b, new[row][v], place(row, v))
