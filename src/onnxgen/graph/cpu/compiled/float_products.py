"""Step kernels of matrices kept in floats: packing them, and multiplying rows of float32 by them.

    y [rows, columns] = x [rows, depth] @ w [depth, columns]      (+ bias) (+ y)

The unit of work is a panel of columns times a chunk of rows. For few rows a panel is read once and widened in registers; for
many it is widened, a piece of the depth at a time, into memory that stays in the first-level cache while the rows pass by.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.blocks.endings import gated_row, plain_row
from onnxgen.graph.cpu.compiled.float_layout import CHUNK_ROWS, DIRECT_ROWS, PANEL_COLUMNS, row_chunks
from onnxgen.graph.cpu.compiled.float_tile import SUM_BYTES, float_tile, tile_of
from onnxgen.graph.cpu.compiled.kernel import ints32, word, words16
from onnxgen.graph.cpu.compiled.lane_floats import exact, store
from onnxgen.graph.cpu.compiled.lane_halves import reader
from onnxgen.graph.cpu.compiled.vectors import LANES
from onnxgen.graph.cpu.isa import Isa

_PIECE = 96
"""Depth of what is widened at once: 24 KiB."""

_chunks_of = exact(row_chunks)

StepFunction = Callable[[int, int, int, int, int], None]


def float_product(*, elements: str, gate: str | None, isa: Isa) -> StepFunction:
    """``y = x @ w``, with a bias, added to ``y``, or where ``gate`` names one gated.

    Words:

        1       rows: index of the header's word that counts them
        2, 3    x: float32 rows, floats between them
        4       w: panels of `float_layout`
        5, 6    depth, panels
        7       columns of y
        8, 9    y: float32 rows, floats between them
        10      bias: float32, as wide as w; 0 for none
        11      further: not 0 adds to y
    """
    shape = tile_of(isa)
    direct, wide = (_tiles(shape.rows, shape.vectors, kind, isa) for kind in (elements, "float32"))
    end_row = gated_row(gate) if gate else plain_row()
    columns_of_panel = PANEL_COLUMNS // 2 if gate else PANEL_COLUMNS
    read, _, element_bytes = reader(elements, isa)
    widens, tile_rows, tile_columns = element_bytes < 4, shape.rows, shape.columns
    # Before the widened piece are the sums of a chunk, whose rows are rounded up to whole tiles.
    panel_at = (CHUNK_ROWS + tile_rows) * SUM_BYTES

    @exact
    def widen(source: int, target: int, depth: int) -> None:
        for i in range(0, depth * PANEL_COLUMNS, LANES):
            store(target + 4 * i, read(source + element_bytes * i))

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, x_stride = word(step, word(row, 1)), 4 * word(row, 3)
        depth, panels, columns = word(row, 5), word(row, 6), word(row, 7)
        chunks = _chunks_of(rows)
        if chunks == 0:
            return
        chunk_rows = (rows + chunks * tile_rows - 1) // (chunks * tile_rows) * tile_rows
        units = panels * chunks
        for unit in range(units * part // parts, units * (part + 1) // parts):
            chunk, panel = unit // panels, unit % panels
            first_row = min(rows, chunk * chunk_rows)
            count = min(rows, first_row + chunk_rows) - first_row
            x = word(row, 2) + x_stride * first_row
            w = word(row, 4) + panel * depth * PANEL_COLUMNS * element_bytes
            if count <= DIRECT_ROWS:
                for column in range(0, PANEL_COLUMNS, tile_columns):
                    direct(x, x_stride, w + element_bytes * column, depth, scratch + 4 * column, count, 1)
            else:
                for start in range(0, depth, _PIECE):
                    piece = min(_PIECE, depth - start)
                    source = w + start * PANEL_COLUMNS * element_bytes
                    if widens:
                        widen(source, scratch + panel_at, piece)
                        source = scratch + panel_at
                    fresh = 1 if start == 0 else 0
                    for column in range(0, PANEL_COLUMNS, tile_columns):
                        at, sums = source + 4 * column, scratch + 4 * column
                        wide(x + 4 * start, x_stride, at, piece, sums, count, fresh)
            first_column = panel * columns_of_panel
            for r in range(count):
                y = word(row, 8) + 4 * ((first_row + r) * word(row, 9) + first_column)
                bias = word(row, 10) + 4 * panel * PANEL_COLUMNS if word(row, 10) else 0
                width = min(columns_of_panel, columns - first_column)
                end_row(scratch + r * SUM_BYTES, y, bias, width, word(row, 11))

    return kernel


def _tiles(most_rows: int, vectors: int, elements: str, isa: Isa) -> Callable[..., None]:
    """``multiply(x, x_stride, panel, depth, sums, rows, fresh)``: any number of rows, by tiles of several sizes."""
    whole, four, two, one = (float_tile(rows, vectors, elements, isa) for rows in (most_rows, 4, 2, 1))

    @exact
    def multiply(x: int, x_stride: int, panel: int, depth: int, sums: int, rows: int, fresh: int) -> None:
        r = 0
        while r + most_rows <= rows:
            whole(x + r * x_stride, x_stride, panel, depth, sums + r * SUM_BYTES, fresh)
            r += most_rows
        if most_rows > 4 and r + 4 <= rows:
            four(x + r * x_stride, x_stride, panel, depth, sums + r * SUM_BYTES, fresh)
            r += 4
        if r + 2 <= rows:
            two(x + r * x_stride, x_stride, panel, depth, sums + r * SUM_BYTES, fresh)
            r += 2
        if r < rows:
            one(x + r * x_stride, x_stride, panel, depth, sums + r * SUM_BYTES, fresh)

    return multiply


def pack_floats(*, element_bytes: int) -> StepFunction:
    """Panels of a matrix, or of the part of them that it fills.

    Words:

        1       source, elements of 2 or 4 bytes
        2, 3    elements between two columns, and between two steps of the depth
        4, 5    depth, columns
        6       panels
        7, 8    first tile, and tiles between neighbouring ones: 2 where two matrices take turns
    """
    elements = words16 if element_bytes == 2 else ints32
    tiles_of_panel = PANEL_COLUMNS // LANES

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        source, column_step, depth_step = word(row, 1), word(row, 2), word(row, 3)
        depth, columns = word(row, 4), word(row, 5)
        tiles = (columns + LANES - 1) // LANES
        for source_tile in range(tiles * part // parts, tiles * (part + 1) // parts):
            tile = word(row, 7) + source_tile * word(row, 8)
            place = tile // tiles_of_panel * depth * PANEL_COLUMNS + tile % tiles_of_panel * LANES
            target = elements(word(row, 6) + element_bytes * place, depth * PANEL_COLUMNS)
            first = source_tile * LANES
            for start in range(0, depth, LANES):
                stop = min(depth, start + LANES)
                for lane in range(min(LANES, columns - first)):
                    at = source + element_bytes * ((first + lane) * column_step + start * depth_step)
                    values = elements(at, (stop - start) * depth_step)
                    for k in range(start, stop):
                        target[k * PANEL_COLUMNS + lane] = values[(k - start) * depth_step]

    return kernel
