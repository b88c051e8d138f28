"""The step kernel that brings a matrix from the layout of ``MatMulNBits`` into panels, tile by tile.

    codes    [columns, blocks, block * bits / 8]   elements along the depth, the first in the lowest bits
    scales   [columns, blocks]                     float32 or float16
    zeros    [columns, bytes]                      whole zero points, packed like elements; or float32 [columns, blocks]

Four elements of a column lie in ``4 * bits`` neighbouring bits; spread to a byte each they are a lane of a panel's vector.
`arguments.PACK` names the words of a call.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.blocks.format import LANES, PANEL_TILES, VECTOR_BYTES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.scalars import four_elements, half_reader, half_writer, store_four
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import bytes8, floats, word, words16
from onnxgen.graph.cpu.isa import Isa, host_isa


def pack_blocks(
    form: BlockFormat, *, half_scales: bool = False, isa: Isa | None = None
) -> Callable[..., None]:
    """The kernel for a format; its parts are any split of the tiles of the matrix.

    Args:
        form: What is to be made.
        half_scales: Scales come as float16.
        isa: The instruction set; None takes that of the process.
    """
    isa = isa or host_isa()
    read_four, narrow, widen = four_elements(form), half_writer(isa), half_reader(isa)
    block_bytes, scale_bytes, zero_bytes = form.block_bytes, form.scale_bytes, form.zero_bytes
    head_bytes, tile_bytes, group_bytes = form.head_bytes, form.tile_bytes, form.group_bytes
    bits, block, fields, vectors, words = form.bits, form.block, form.fields, form.vectors, form.words
    groups, group_source, exact = form.groups_per_block, form.group * form.bits // 8, form.exact
    has_bytes, has_offsets = form.zeros == "bytes", form.zeros == "offsets"
    middle, largest = np.float32(form.middle), form.largest

    @inline
    def put(target: int, lane: int, value: Any) -> None:
        if exact:
            floats(target, LANES)[lane] = value
        else:
            words16(target, LANES)[lane] = narrow(value)

    @inline
    def pack_head(row: int, column: int, index: int, target: int, lane: int, tile: int) -> None:
        """The scale and the zero of a block of a column."""
        blocks = word(row, 5)
        place = column * blocks + index
        if half_scales:
            scale = widen(words16(word(row, 2), place + 1)[place])
        else:
            scale = floats(word(row, 2), place + 1)[place]
        put(target + tile * scale_bytes, lane, scale)
        zeros = target + PANEL_TILES * scale_bytes + tile * zero_bytes
        if has_bytes:
            byte = word(row, 3) + column * word(row, 6) + index * bits // 8
            bytes8(zeros, LANES)[lane] = (bytes8(byte, 1)[0] >> (index * bits % 8)) & largest
        if has_offsets:
            put(zeros, lane, scale * (middle - floats(word(row, 3), place + 1)[place]))

    @inline
    def pack_group(source: int, target: int) -> None:
        """The elements of a column in a group, to its lane."""
        for vector in range(vectors):
            lane = np.uint32(0)
            for field in range(fields):
                lane |= read_four(source, field * vectors + vector) << np.uint32(field * bits)
            if words:
                outer, low, high = lane & 0xFF0000FF, lane & 0x0000FF00, lane & 0x00FF0000
                lane = np.uint32(outer | (low << 8) | (high >> 8))
            store_four(target + vector * VECTOR_BYTES, lane)

    def pack(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        codes, columns, blocks = word(row, 1), word(row, 4), word(row, 5)
        panels, first_tile, tile_step = word(row, 7), word(row, 8), word(row, 9)
        tiles = (columns + LANES - 1) // LANES
        for source_tile in range(tiles * part // parts, tiles * (part + 1) // parts):
            tile = first_tile + source_tile * tile_step
            panel = panels + tile // PANEL_TILES * blocks * block_bytes
            tile = tile % PANEL_TILES
            for lane in range(min(LANES, columns - source_tile * LANES)):
                column = source_tile * LANES + lane
                for index in range(blocks):
                    target = panel + index * block_bytes
                    pack_head(row, column, index, target, lane, tile)
                    source = codes + (column * blocks + index) * (block * bits // 8)
                    target += head_bytes + tile * tile_bytes + lane * 4
                    for group in range(groups):
                        pack_group(source + group * group_source, target + group * group_bytes)

    return pack
