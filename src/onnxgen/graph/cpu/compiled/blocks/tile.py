"""The innermost product: a few rows of activations with a few tiles of weights, group by group along the depth.

    for each group:
        integer sums    of 32 products, exact
        float sums      += integer sum * (scale of the weights * scale of the activations)

Every float sum is made by the same operations in the same order whatever the shape of the tile and wherever the weights
are read from, so that a row's results do not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.compiled.blocks.format import PANEL_COLUMNS, VECTOR_BYTES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.sources import PackedGroup, UnpackedGroup, operands, start
from onnxgen.graph.cpu.isa import Isa

OUT_BYTES = 4 * PANEL_COLUMNS
"""Bytes between rows of results."""

_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class TileShape:
    """What a tile computes at once.

    Attributes:
        rows: Rows of activations.
        tiles: Tiles of 16 columns.
    """

    rows: int
    tiles: int


def block_tile(isa: Isa, form: BlockFormat, shape: TileShape, *, unpacked: bool) -> Callable[..., None]:
    """An intrinsic ``tile(weights, first, x, scales, sums, y, groups, x_stride, scale_stride, further, ahead)``.

    Args of it, addresses, counts, and strides in bytes between rows:
        weights: A packed panel, or its unpacked groups.
        first: The first of the tiles, in the panel.
        x: Activations of the first group and row.
        scales: Their scales.
        sums: Their sums.
        y: Where results of the first tile go: float32, rows of 64.
        groups: How many, at least one.
        x_stride: Of the activations.
        scale_stride: Of scales and sums.
        further: Not 0: add to what is in ``y``.
        ahead: Bytes from what is read of a packed panel to what is asked for meanwhile.
    """

    @intrinsic
    def tile(
        _context: Any,
        weights: Any,
        first: Any,
        x: Any,
        scales: Any,
        sums: Any,
        y: Any,
        groups: Any,
        x_stride: Any,
        scale_stride: Any,
        further: Any,
        ahead: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            emit_tile(builder, isa, form, shape, *arguments, unpacked=unpacked)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 11), generate

    return tile


def emit_tile(
    b: Any, isa: Isa, form: BlockFormat, shape: TileShape, *arguments: Any, unpacked: bool = False
) -> None:
    """The instructions of `block_tile`; the arguments are its, as i64."""
    _Tile(b, isa, form, shape, unpacked).emit(*arguments)


@dataclass(frozen=True)
class _Tile:
    b: Any
    isa: Isa
    form: BlockFormat
    shape: TileShape
    unpacked: bool

    def emit(
        self,
        weights: Any,
        first: Any,
        x: Any,
        scales: Any,
        sums: Any,
        y: Any,
        groups: Any,
        x_stride: Any,
        scale_stride: Any,
        further: Any,
        ahead: Any,
    ) -> None:
        b, rows, tiles = self.b, range(self.shape.rows), range(self.shape.tiles)
        x_rows = [b.add(x, b.mul(x_stride, v.I64(row))) for row in rows]
        scale_rows = [b.add(scales, b.mul(scale_stride, v.I64(row))) for row in rows]
        sum_rows = [b.add(sums, b.mul(scale_stride, v.I64(row))) for row in rows]
        places = [[b.add(y, v.I64(row * OUT_BYTES + tile * VECTOR_BYTES)) for tile in tiles] for row in rows]
        fresh, again, loop, done = (b.append_basic_block(name) for name in ("fresh", "again", "loop", "done"))
        b.cbranch(b.icmp_signed("!=", further, v.I64(0)), again, fresh)
        b.position_at_end(again)
        old = [[v.load(b, place, v.FLOATS) for place in row] for row in places]
        b.branch(loop)
        b.position_at_end(fresh)
        b.branch(loop)

        b.position_at_end(loop)
        group = b.phi(v.I64)
        totals = [[b.phi(v.FLOATS) for _ in tiles] for _ in rows]
        x_bytes = self.form.group * (2 if self.form.words else 1)
        x_group, scale_group = b.mul(group, v.I64(x_bytes)), b.mul(group, v.I64(_SCALE_BYTES))
        new = self._group(
            weights,
            first,
            group,
            [b.add(row, x_group) for row in x_rows],
            [v.load(b, b.add(row, scale_group), v.F32) for row in scale_rows],
            [v.load(b, b.add(row, scale_group), v.I32) for row in sum_rows],
            totals,
            ahead,
        )
        following = b.add(group, v.I64(1))
        for block, value in ((fresh, v.I64(0)), (again, v.I64(0)), (b.block, following)):
            group.add_incoming(value, block)
        for row in rows:
            for tile in tiles:
                totals[row][tile].add_incoming(v.every(v.FLOATS, 0.0), fresh)
                totals[row][tile].add_incoming(old[row][tile], again)
                totals[row][tile].add_incoming(new[row][tile], b.block)
        b.cbranch(b.icmp_signed("<", following, groups), loop, done)

        b.position_at_end(done)
        for row in rows:
            for tile in tiles:
                v.store(b, new[row][tile], places[row][tile])

    def _group(
        self,
        weights: Any,
        first: Any,
        group: Any,
        x: list[Any],
        scales: list[Any],
        sums: list[Any],
        totals: list[list[Any]],
        ahead: Any,
    ) -> list[list[Any]]:
        """The totals with a group added."""
        b, form = self.b, self.form
        rows, tiles = range(self.shape.rows), range(self.shape.tiles)
        source: PackedGroup | UnpackedGroup
        if self.unpacked:
            source = UnpackedGroup.at(b, form, weights, group, first)
        else:
            source = PackedGroup.at(b, self.isa, form, weights, group, first, ahead)
        zeros = [source.zero(tile) for tile in tiles]
        products = [[start(b, self.isa, form, sums[row], zeros[tile]) for tile in tiles] for row in rows]
        products = self._multiply(source, x, products)
        factors = [v.splat(b, scale, v.FLOATS) for scale in scales]
        offsets = [v.splat(b, b.fmul(scales[row], b.sitofp(sums[row], v.F32)), v.FLOATS) for row in rows]
        new: list[list[Any]] = [[None for _ in tiles] for _ in rows]
        for tile in tiles:
            weight_scale = source.scale(tile)
            for row in rows:
                value = b.sitofp(products[row][tile], v.FLOATS)
                scale = b.fmul(weight_scale, factors[row])
                total = v.fma(b, self.isa, value, scale, totals[row][tile])
                if form.zeros == "offsets":
                    total = v.fma(b, self.isa, zeros[tile], offsets[row], total)
                new[row][tile] = total
        return new

    def _multiply(
        self, source: PackedGroup | UnpackedGroup, x: list[Any], products: list[list[Any]]
    ) -> list[list[Any]]:
        """The integer sums with all products of a group added."""
        form, rows, tiles = self.form, range(self.shape.rows), range(self.shape.tiles)
        in_words = not form.words and v.sums_fit_words(self.isa, form.largest, form.steps)
        sums = [[v.every(v.WORDS, 0)] * len(tiles) for _ in rows] if in_words else products
        parts = operands(form)
        for vector in range(form.vectors):
            raw = [] if isinstance(source, UnpackedGroup) else [source.raw(tile, vector) for tile in tiles]
            for field in range(form.fields):
                step = field * form.vectors + vector
                for part in range(parts):
                    if isinstance(source, UnpackedGroup):
                        weights = [source.operand(tile, step, part) for tile in tiles]
                    else:
                        weights = [source.field(raw[tile], field, part) for tile in tiles]
                    for row in rows:
                        factor = self._broadcast(x[row], (step * parts + part) * 4)
                        for tile in tiles:
                            sums[row][tile] = self._dot(sums[row][tile], weights[tile], factor, in_words)
        if not in_words:
            return sums
        return [
            [v.add_words(self.b, self.isa, products[row][tile], sums[row][tile]) for tile in tiles]
            for row in rows
        ]

    def _broadcast(self, address: Any, place: int) -> Any:
        value = v.load(self.b, self.b.add(address, v.I64(place)), v.I32)
        return self.b.bitcast(v.splat(self.b, value, v.INTS), v.WORDS if self.form.words else v.BYTES)

    def _dot(self, total: Any, weights: Any, factor: Any, in_words: bool) -> Any:
        if in_words:
            return v.add_pairs(self.b, self.isa, total, weights, factor)
        if self.form.words:
            return v.dot_words(self.b, self.isa, total, weights, factor)
        return v.dot_bytes(self.b, self.isa, total, weights, factor, largest=self.form.largest)
