"""Where a thread keeps what it computes of an item.

once a tile    addresses of 4 groups of keys, of values, of scales; the scales of 64 tokens
once a block   scores, weights, fades, ends of a few rows
once a split   maxima, denominators, sums of all rows of the item
once an item   records of all splits so far
"""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.graph.cpu.compiled.paged.items import MOST_ROWS
from onnxgen.graph.cpu.compiled.paged.layout import GROUP_TOKENS
from onnxgen.graph.cpu.compiled.paged.merging import record_bytes
from onnxgen.graph.cpu.compiled.paged.numbers import TILE_KEYS
from onnxgen.graph.cpu.compiled.paged.scores import SCORE_BYTES
from onnxgen.graph.cpu.compiled.paged.values import WEIGHT_BYTES
from onnxgen.graph.cpu.compiled.vectors import VECTOR_BYTES

GROUPS = TILE_KEYS // GROUP_TOKENS
"""Groups of 16 tokens that are computed with at once."""

GROUPS_BYTES = 8 * GROUPS
"""Their addresses: first of their keys, then of their values, then of their scales."""


@dataclass(frozen=True, slots=True)
class Places:
    """Offsets from a thread's scratch memory, each on a cache line."""

    groups: int
    scales: int
    scores: int
    weights: int
    fades: int
    ends: int
    maxima: int
    denominators: int
    sums: int
    records: int


def places(block_rows: int, value_dim: int) -> Places:
    """The offsets for blocks of so many rows."""
    sizes = (
        3 * VECTOR_BYTES,
        3 * 4 * TILE_KEYS,
        block_rows * SCORE_BYTES,
        block_rows * WEIGHT_BYTES,
        VECTOR_BYTES,
        VECTOR_BYTES,
        -(-4 * MOST_ROWS // VECTOR_BYTES) * VECTOR_BYTES,
        MOST_ROWS * VECTOR_BYTES,
        MOST_ROWS * 4 * value_dim,
        MOST_ROWS * record_bytes(value_dim),
    )
    offsets = [sum(sizes[:index]) for index in range(len(sizes))]
    return Places(*offsets)
