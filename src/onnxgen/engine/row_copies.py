"""Which rows of a `Batch` keep their cache when rows become others, and which blocks the rest must be given.

Rows of a beam search are exchanged at every step. What a row keeps in the cache stays where it is; a row that
nobody continues gives its blocks to one that has to go on from somebody else's tokens::

    parents      [ 1, 1, 3, 1 ]            rows 0 and 2 are continued by nobody
    kept         1 and 3                   by the first row that continues them
    given        blocks of 0 and 2         to the others, rows 1 and 3

    source   [ a b c d | e f g h | i j   ]      the row that is continued, blocks of 4
    target   [ a b c d | e f x y | z     ]      the row that gives its blocks: 6 tokens are the same
    copied             | e f g h | i j   |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import BlockCopy

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CachedRow:
    """What the cache holds of a row.

    Attributes:
        tokens: Token ids of it, int64 ``[cached]``.
        long: Whether they were computed with the rotary factors of long sequences.
        blocks: Where, in order; more than are needed.
    """

    tokens: Int64Array
    long: bool
    blocks: Sequence[int]


def common_length(source: CachedRow, target: CachedRow) -> int:
    """How many tokens the cache holds of both alike, from the first on."""
    if source.long != target.long:
        return 0
    shorter = min(len(source.tokens), len(target.tokens))
    different = source.tokens[:shorter] != target.tokens[:shorter]
    return int(different.argmax()) if different.any() else shorter


def differing_blocks(
    source: CachedRow, target: CachedRow, *, block_size: int, rewind: bool
) -> list[BlockCopy]:
    """Copies after which the target's blocks hold what the source's do.

    Args:
        source: What is wanted.
        target: What is there.
        block_size: Positions of a block.
        rewind: Whether a block's beginning is of use. False: it holds one state, after all of its tokens.
    """
    length, common = len(source.tokens), common_length(source, target)
    if common == length and (rewind or length == len(target.tokens)):
        return []
    first = common // block_size if rewind else 0
    return [
        BlockCopy(source.blocks[n], target.blocks[n], min(block_size, length - n * block_size))
        for n in range(first, -(-length // block_size))
    ]


def heirs(parents: Sequence[int]) -> list[int | None]:
    """Of each row, the one that keeps its place: itself if it goes on from itself, else the first that does.

    Args:
        parents: Of each row, the one whose tokens it goes on from.

    Returns:
        ``[rows]``, None for rows that nobody goes on from.
    """
    result: list[int | None] = [None] * len(parents)
    for row, parent in enumerate(parents):
        if result[parent] is None or row == parent:
            result[parent] = row
    return result
