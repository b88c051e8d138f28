"""The step kernel ``y [rows, columns] = x [rows, depth] * weights``, for quantized activations and a packed matrix.

Its work is cut into panels of weights, and for many rows into chunks of rows as well. `arguments.PRODUCT` names the words of
a call.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.blocks.endings import gated_row, plain_row
from onnxgen.graph.cpu.compiled.blocks.format import PANEL_COLUMNS, PANEL_TILES, VECTOR_BYTES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.panels import panel_rows, panel_rows_unpacking
from onnxgen.graph.cpu.compiled.blocks.schedule import MOST_ROWS, row_chunks
from onnxgen.graph.cpu.compiled.blocks.sources import prefetching
from onnxgen.graph.cpu.compiled.blocks.tile import OUT_BYTES, TileShape, block_tile
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import word
from onnxgen.graph.cpu.isa import Isa, host_isa

_SUMS_BYTES = MOST_ROWS * OUT_BYTES

_row_chunks = inline(row_chunks)


def block_product(
    form: BlockFormat, gate: str | None = None, unpack_from: int | None = None, isa: Isa | None = None
) -> Callable[..., None]:
    """The kernel for a format and an ending.

    Args:
        form: The format of the weights.
        gate: The activation of a gated product; None for a plain one.
        unpack_from: Rows from which on panels are unpacked for all of them; None never does.
        isa: The instruction set; None takes that of the process.
    """
    isa = isa or host_isa()
    multiply = panel_rows(isa, form)
    multiply_many = panel_rows_unpacking(isa, form) if unpack_from else multiply
    many_rows = unpack_from or 0
    distance = prefetching().distance
    half_panel = block_tile(isa, form, TileShape(1, 2), unpacked=False)
    end = gated_row(gate) if gate else plain_row()
    per_block, block_bytes = form.groups_per_block, form.block_bytes
    gated = 2 if gate else 1

    @inline
    def finish(row: int, sums: int, tile: int, tiles: int, first: int, last: int) -> None:
        """Write the results of rows from some tiles of all panels; their sums begin at an address."""
        y, y_stride, columns, bias, further = (
            word(row, 11),
            word(row, 12),
            word(row, 10),
            word(row, 13),
            word(row, 14),
        )
        column = tile * PANEL_COLUMNS // PANEL_TILES // gated
        count = min(tiles * PANEL_COLUMNS // PANEL_TILES // gated, columns - column)
        if bias:
            bias += tile * VECTOR_BYTES
        for index in range(first, last):
            end(sums, y + index * y_stride + 4 * column, bias, count, further)
            sums += OUT_BYTES

    def product(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows = word(step, word(row, 1))
        x, scales, sums, x_stride, scale_stride = (
            word(row, 2),
            word(row, 3),
            word(row, 4),
            word(row, 5),
            word(row, 6),
        )
        weights, groups, panels = word(row, 7), word(row, 8), word(row, 9)
        panel_bytes = (groups + per_block - 1) // per_block * block_bytes
        if rows == 1 and parts > panels:
            # The first panels are a part each, the others two.
            whole = max(0, 2 * panels - parts)
            half = part + whole
            if half >= 2 * panels:
                return
            if part >= whole:
                packed, tile = weights + half // 2 * panel_bytes, half % 2 * (PANEL_TILES // 2)
                half_panel(packed, tile, x, scales, sums, scratch, groups, 0, 0, 0, distance)
                finish(row, scratch, half * (PANEL_TILES // 2), PANEL_TILES // 2, 0, 1)
                return
            parts = panels
        chunks = _row_chunks(rows, panels, parts)
        units = panels * chunks
        for unit in range(units * part // parts, units * (part + 1) // parts):
            panel, chunk = unit // chunks, unit % chunks
            first, last = rows * chunk // chunks, rows * (chunk + 1) // chunks
            packed, xs = weights + panel * panel_bytes, x + first * x_stride
            ss, ts = scales + first * scale_stride, sums + first * scale_stride
            if many_rows and rows >= many_rows:
                room = scratch + _SUMS_BYTES
                multiply_many(packed, xs, ss, ts, scratch, groups, x_stride, scale_stride, last - first, room)
            else:
                multiply(
                    packed, xs, ss, ts, scratch, groups, x_stride, scale_stride, last - first, 0, panel_bytes
                )
            finish(row, scratch, panel * PANEL_TILES, PANEL_TILES, first, last)

    return product
