"""Where keys and values lie, and how a block of them is read."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.flash_records import KEY_BLOCK, TILE_ROWS
from onnxgen.graph.cpu.compiled.function import inline, leaf
from onnxgen.graph.cpu.compiled.kernel import floats, ints32
from onnxgen.graph.cpu.compiled.widening import FLOAT, widen

NOWHERE = -1
"""The address of a key whose block has no id."""


@inline
def key_address(sequence: Any, first: int, row_bytes: int, key: int) -> int:
    """Where a row of keys or values lies.

    Args:
        sequence: See `flash_records`.
        first: Address of row 0 of the head.
        row_bytes: From one row to the next.
        key: Which row.
    """
    if sequence.blocks == 0:
        return first + key * row_bytes
    page = key // sequence.block_size
    block = np.int64(ints32(sequence.blocks, sequence.num_blocks)[page]) if page < sequence.num_blocks else -1
    if block < 0:
        return NOWHERE
    return first + (block * sequence.block_size + key % sequence.block_size) * row_bytes


@inline
def lies_well(sequence: Any, kind: int, dim: int, width: int) -> bool:
    """Whether whole blocks of `KEY_BLOCK` rows can be read where they are: float32 without padding, rows in order."""
    paged = sequence.blocks != 0
    return kind == FLOAT and dim == width and not (paged and sequence.block_size % KEY_BLOCK)


@leaf
def widen_block(
    sequence: Any,
    kind: int,
    first: int,
    row_bytes: int,
    start: int,
    keys: int,
    dim: int,
    width: int,
    target: int,
    spare: int,
) -> None:
    """Write rows ``start`` to ``start + keys`` as float32 ``[keys, width]``, zeros where there is nothing."""
    for j in range(keys):
        place, row = key_address(sequence, first, row_bytes, start + j), target + 4 * width * j
        if place != NOWHERE:
            widen(kind, place, dim, row, spare)
        if place == NOWHERE or dim < width:
            floats(row, width)[0 if place == NOWHERE else dim :] = np.float32(0)


@inline
def reach(r: int, horizon: int, first_row: int, group: int, keys: int) -> int:
    """How many of a block's keys row ``r`` of a block of rows, or another row of its tile, may see.

    Args:
        r: The row.
        horizon: How many of these and later keys the first query of the sequence may see.
        first_row: The first row of the block, among those of the sequence.
        group: Rows of a query.
        keys: Keys in the block.
    """
    last = first_row + r // TILE_ROWS * TILE_ROWS + TILE_ROWS - 1
    return max(0, min(keys, horizon + last // group))


@leaf
def hide_missing(sequence: Any, scores: int, rows: int, start: int, keys: int) -> None:
    """Minus infinity as the score, in ``[rows, KEY_BLOCK]``, of keys whose block has no id."""
    for j in range(keys):
        if key_address(sequence, 0, 1, start + j) == NOWHERE:
            for r in range(rows):
                floats(scores + 4 * (r * KEY_BLOCK + j), 1)[0] = np.float32(-np.inf)
