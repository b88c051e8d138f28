"""Rows of activations with one panel of weights, in tiles: straight from the packed panel, or from what is unpacked of it.

Unpacking takes instructions that compete with those that multiply, on some processors; there, many rows are multiplied with
groups that were unpacked once into scratch memory, as many as fit the first-level cache, while the sums wait for the next.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.blocks.format import PANEL_TILES, VECTOR_BYTES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.sources import prefetching, unpacked_group_bytes
from onnxgen.graph.cpu.compiled.blocks.tile import OUT_BYTES, TileShape, block_tile
from onnxgen.graph.cpu.compiled.blocks.unpacking import unpack_group
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.isa import Isa

UNPACKED_BYTES = 20 << 10
"""Unpacked groups that lie in the first-level cache at once."""


def tile_shapes(isa: Isa) -> tuple[TileShape, TileShape, TileShape]:
    """Tiles of one, two and three rows: their integer sums fill about half of the registers."""
    wide = isa in (Isa.AVX512_VNNI, Isa.AVX512)
    return TileShape(1, 4), TileShape(2, 4 if wide else 2), TileShape(3, 4 if wide else 1)


def panel_rows(isa: Isa, form: BlockFormat, *, unpacked: bool = False) -> Callable[..., None]:
    """``multiply(weights, x, scales, sums, y, groups, x_stride, scale_stride, rows, further, panel_bytes)``.

    As of `block_tile`; the next panel begins ``panel_bytes`` further.
    """
    shapes = tile_shapes(isa)
    one, two, three = (block_tile(isa, form, shape, unpacked=unpacked) for shape in shapes)
    distance, next_panel = prefetching().distance, prefetching().next_panel
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
        panel_bytes: int,
    ) -> None:
        # Rows that pass over the panel one tile after the other ask for other lines of the next one. Three at once pass
        # once, ask for half of it, and wait for the rest: from main memory, two and then one take half as long.
        ahead = panel_bytes if next_panel and rows > 2 else distance
        apart = next_panel and rows == 3
        while rows > 0:
            # Four rows are two and two: a single one is slow.
            if rows > 4 or (rows == 3 and not apart):
                done = 3
                for tile in range(0, PANEL_TILES, three_tiles):
                    place = y + tile * VECTOR_BYTES
                    three(
                        weights, tile, x, scales, sums, place, groups, x_stride, scale_stride, further, ahead
                    )
            elif rows > 1:
                done = 2
                for tile in range(0, PANEL_TILES, two_tiles):
                    place = y + tile * VECTOR_BYTES
                    two(weights, tile, x, scales, sums, place, groups, x_stride, scale_stride, further, ahead)
            else:
                done = 1
                for tile in range(0, PANEL_TILES, one_tiles):
                    place = y + tile * VECTOR_BYTES
                    one(weights, tile, x, scales, sums, place, groups, x_stride, scale_stride, further, ahead)
            rows, ahead = rows - done, ahead + VECTOR_BYTES
            x, y = x + done * x_stride, y + done * OUT_BYTES
            scales, sums = scales + done * scale_stride, sums + done * scale_stride

    return multiply


def panel_rows_unpacking(isa: Isa, form: BlockFormat) -> Callable[..., None]:
    """``multiply(panel, x, scales, sums, y, groups, x_stride, scale_stride, rows, room)``.

    ``room`` is the address of ``UNPACKED_BYTES``, or what one group takes.
    """
    multiply_unpacked = panel_rows(isa, form, unpacked=True)
    group_bytes, x_group = unpacked_group_bytes(form), form.group * (2 if form.words else 1)
    at_once = max(1, UNPACKED_BYTES // group_bytes)
    # What is unpacked next arrives while the rows are multiplied.
    unpack = unpack_group(isa, form, ahead=at_once * form.block_bytes // form.groups_per_block)

    @inline
    def multiply(
        panel: int,
        x: int,
        scales: int,
        sums: int,
        y: int,
        groups: int,
        x_stride: int,
        scale_stride: int,
        rows: int,
        room: int,
    ) -> None:
        for group in range(0, groups, at_once):
            count = min(at_once, groups - group)
            for index in range(count):
                unpack(panel, group + index, room + index * group_bytes)
            multiply_unpacked(
                room,
                x + group * x_group,
                scales + group * 4,
                sums + group * 4,
                y,
                count,
                x_stride,
                scale_stride,
                rows,
                group,
                0,
            )

    return multiply
