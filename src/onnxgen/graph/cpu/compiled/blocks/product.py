"""The step kernel ``y [rows, columns] = x [rows, depth] * weights``, for quantized activations and a packed matrix.

Few rows are multiplied straight from the packed panels, which are read once, as fast as memory gives them. For many rows
some groups of a panel are unpacked into scratch memory, where they stay in the first-level cache while all rows pass over
them; the sums of the panel wait beside them for the next groups.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.blocks.endings import gated_row, plain_row
from onnxgen.graph.cpu.compiled.blocks.format import PANEL_COLUMNS, PANEL_TILES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.schedule import DIRECT_ROWS, MOST_ROWS, row_chunks
from onnxgen.graph.cpu.compiled.blocks.sources import unpacked_group_bytes
from onnxgen.graph.cpu.compiled.blocks.tile import OUT_BYTES, TileShape, block_tile
from onnxgen.graph.cpu.compiled.blocks.unpacking import unpack_group
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import word
from onnxgen.graph.cpu.isa import Isa, host_isa

UNPACKED_BYTES = 20 << 10
"""Unpacked groups that lie in the first-level cache at once."""

_SUMS_BYTES = MOST_ROWS * OUT_BYTES

_row_chunks = inline(row_chunks)


def tile_shapes(isa: Isa) -> tuple[TileShape, TileShape, TileShape]:
    """Tiles of one, two and three rows: sums of integers fill at most half of the registers."""
    wide = isa in (Isa.AVX512_VNNI, Isa.AVX512)
    return TileShape(1, 4), TileShape(2, 4 if wide else 2), TileShape(3, 4 if wide else 1)


def block_product(form: BlockFormat, gate: str | None = None, isa: Isa | None = None) -> Callable[..., None]:
    """The kernel for a format and an ending.

    Args:
        form: The format of the weights.
        gate: The activation of a gated product; None for a plain one.
        isa: The instruction set; None takes that of the process.
    """
    isa = isa or host_isa()
    direct, unpacked = (_panel_rows(isa, form, unpacked=unpacked) for unpacked in (False, True))
    unpack = unpack_group(isa, form)
    half_panel = block_tile(isa, form, TileShape(1, 2), unpacked=False)
    end = gated_row(gate) if gate else plain_row()
    group_bytes, panel_block = unpacked_group_bytes(form), form.block_bytes
    groups_at_once = max(1, UNPACKED_BYTES // group_bytes)
    per_block, x_group = form.groups_per_block, form.group * (2 if form.words else 1)
    out_columns = PANEL_COLUMNS // 2 if gate else PANEL_COLUMNS

    @inline
    def finish(row: int, panel: int, first: int, last: int, sums: int, begin: int, size: int) -> None:
        """Write the results of rows from ``begin`` of a panel's outputs on, ``size`` of them."""
        y, y_stride, columns = word(row, 11), word(row, 12), word(row, 10)
        bias, further = word(row, 13), word(row, 14)
        column = panel * out_columns + begin
        count = min(size, columns - column)
        if bias:
            bias += 4 * (panel * PANEL_COLUMNS + begin * (PANEL_COLUMNS // out_columns))
        sums += 4 * begin * (PANEL_COLUMNS // out_columns)
        for index in range(first, last):
            end(sums + (index - first) * OUT_BYTES, y + index * y_stride + 4 * column, bias, count, further)

    @inline
    def few_rows(row: int, scratch: int, rows: int, part: int, parts: int) -> None:
        x, scales, sums = word(row, 2), word(row, 3), word(row, 4)
        x_stride, scale_stride = word(row, 5), word(row, 6)
        weights, groups, panels = word(row, 7), word(row, 8), word(row, 9)
        panel_bytes = (groups + per_block - 1) // per_block * panel_block
        halves = 2 if rows == 1 and parts > panels else 1
        units = panels * halves
        for unit in range(units * part // parts, units * (part + 1) // parts):
            panel = unit // halves
            packed = weights + panel * panel_bytes
            if halves == 2:
                first = unit % 2 * (PANEL_TILES // 2)
                half_panel(packed, first, x, scales, sums, scratch + 64 * first, groups, 0, 0, 0)
                finish(row, panel, 0, 1, scratch, unit % 2 * (out_columns // 2), out_columns // 2)
                continue
            direct(packed, x, scales, sums, scratch, groups, x_stride, scale_stride, rows, 0)
            finish(row, panel, 0, rows, scratch, 0, out_columns)

    @inline
    def many_rows(row: int, scratch: int, rows: int, part: int, parts: int) -> None:
        x, scales, sums = word(row, 2), word(row, 3), word(row, 4)
        x_stride, scale_stride = word(row, 5), word(row, 6)
        weights, groups, panels = word(row, 7), word(row, 8), word(row, 9)
        panel_bytes = (groups + per_block - 1) // per_block * panel_block
        chunks = _row_chunks(rows, panels, parts)
        units = panels * chunks
        ready = scratch + _SUMS_BYTES
        for unit in range(units * part // parts, units * (part + 1) // parts):
            panel, chunk = unit // chunks, unit % chunks
            packed = weights + panel * panel_bytes
            first, last = rows * chunk // chunks, rows * (chunk + 1) // chunks
            for group in range(0, groups, groups_at_once):
                count = min(groups_at_once, groups - group)
                for index in range(count):
                    unpack(packed, group + index, ready + index * group_bytes)
                unpacked(
                    ready,
                    x + first * x_stride + group * x_group,
                    scales + first * scale_stride + group * 4,
                    sums + first * scale_stride + group * 4,
                    scratch,
                    count,
                    x_stride,
                    scale_stride,
                    last - first,
                    group,
                )
            finish(row, panel, first, last, scratch, 0, out_columns)

    def product(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows = word(step, word(row, 1))
        if rows <= DIRECT_ROWS:
            few_rows(row, scratch, rows, part, parts)
        else:
            many_rows(row, scratch, rows, part, parts)

    return product


def _panel_rows(isa: Isa, form: BlockFormat, *, unpacked: bool) -> Callable[..., None]:
    """``multiply(weights, x, scales, sums, y, groups, x_stride, scale_stride, rows, further)``: rows with a panel."""
    shapes = tile_shapes(isa)
    one, two, three = (block_tile(isa, form, shape, unpacked=unpacked) for shape in shapes)
    one_tiles, two_tiles, three_tiles = (shape.tiles for shape in shapes)

    @inline
    def multiply(
        weights: int,
        x: int,
        scales: int,
        sums: int,
        y: int,
        groups: int,
        x_stride: int,
        scale_stride: int,
        rows: int,
        further: int,
    ) -> None:
        done = 0
        while done < rows:
            left = rows - done
            xs, ys = x + done * x_stride, y + done * OUT_BYTES
            ss, ts = scales + done * scale_stride, sums + done * scale_stride
            # Four rows left are two and two: a single row is slow.
            if left == 3 or left > 4:
                for tile in range(0, PANEL_TILES, three_tiles):
                    three(weights, tile, xs, ss, ts, ys + 64 * tile, groups, x_stride, scale_stride, further)
                done += 3
            elif left >= 2:
                for tile in range(0, PANEL_TILES, two_tiles):
                    two(weights, tile, xs, ss, ts, ys + 64 * tile, groups, x_stride, scale_stride, further)
                done += 2
            else:
                for tile in range(0, PANEL_TILES, one_tiles):
                    one(weights, tile, xs, ss, ts, ys + 64 * tile, groups, x_stride, scale_stride, further)
                done += 1

    return multiply
