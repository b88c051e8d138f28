"""The step kernel that gives columns of a packed matrix as float32 rows: embeddings that share the head's weights."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.blocks.format import (
    LANES,
    PANEL_COLUMNS,
    PANEL_TILES,
    VECTOR_BYTES,
    BlockFormat,
)
from onnxgen.graph.cpu.compiled.blocks.scalars import half_reader
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import bytes8, float_word, floats, ints64, word, words16
from onnxgen.graph.cpu.isa import Isa, host_isa


def block_rows(form: BlockFormat, isa: Isa | None = None) -> Callable[..., None]:
    """The kernel for a format; its parts are any split of the rows. `arguments.ROWS` names the words of a call.

    An id outside of the matrix gives a row of zeros.
    """
    widen = half_reader(isa or host_isa())
    exact, words, zeros, middle = form.exact, form.words, form.zeros, np.float32(form.middle)
    block_bytes, scale_bytes, zero_bytes = form.block_bytes, form.scale_bytes, form.zero_bytes
    head_bytes, tile_bytes, group_bytes = form.head_bytes, form.tile_bytes, form.group_bytes
    bits, block, group_size, vectors, largest = form.bits, form.block, form.group, form.vectors, form.largest
    has_bytes, has_offsets = zeros == "bytes", zeros == "offsets"

    @inline
    def read(address: int, lane: int) -> Any:
        if exact:
            return floats(address, LANES)[lane]
        return widen(words16(address, LANES)[lane])

    @inline
    def write_block(head: int, tile: int, lane: int, y: Any, multiplier: Any) -> None:
        """The elements of a block that ``y`` has room for."""
        scale = read(head + tile * scale_bytes, lane)
        zero, offset = middle, np.float32(0)
        places = head + PANEL_TILES * scale_bytes + tile * zero_bytes
        if has_bytes:
            zero = np.float32(bytes8(places, LANES)[lane])
        if has_offsets:
            offset = read(places, lane)
        for index in range(min(block, y.size)):
            group, within = index // group_size, index % group_size
            four, byte = within // 4, within % 4
            field, vector = four // vectors, four % vectors
            if words and byte in (1, 2):
                byte = 3 - byte
            place = head + head_bytes + group * group_bytes + tile * tile_bytes + vector * VECTOR_BYTES
            code = (bytes8(place + 4 * lane + byte, 1)[0] >> (field * bits)) & largest
            y[index] = multiplier * ((np.float32(code) - zero) * scale + offset)

    def rows(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        count = word(step, word(row, 1))
        ids = ints64(word(step, word(row, 2)), count)
        weights, panel_bytes, columns = word(row, 3), word(row, 4), word(row, 5)
        depth, multiplier = word(row, 6), float_word(row, 9)
        for index in range(count * part // parts, count * (part + 1) // parts):
            y = floats(word(row, 7) + index * word(row, 8), depth)
            column = ids[index]
            if column < 0 or column >= columns:
                for place in range(depth):
                    y[place] = np.float32(0)
                continue
            panel = weights + column // PANEL_COLUMNS * panel_bytes
            tile, lane = column % PANEL_COLUMNS // LANES, column % LANES
            for first in range(0, depth, block):
                write_block(panel + first // block * block_bytes, tile, lane, y[first:], multiplier)

    return rows
