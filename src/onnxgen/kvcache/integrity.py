"""`check_blocks`: every reference to a block is one that somebody holds."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgen.kvcache.base import NO_BLOCK, WINDOW
from onnxgen.kvcache.sequence import CachedSequence
from onnxgen.kvcache.supply import BlockSupply


def check_blocks(supply: BlockSupply, held: Iterable[CachedSequence]) -> None:
    """Compare the books of a cache with all who hold blocks: tables, steps in progress, and the prefix index.

    Raises:
        AssertionError: With the whole sum.
    """
    size, index = supply.shape.block_size, supply.index
    index.check_integrity()
    if supply.spill is not None:
        supply.spill.check_integrity()
    for group, pool in enumerate(supply.pools):
        holders, relied = [0] * pool.num_blocks, [0] * pool.num_blocks
        cached: set[int] = set()
        for block in range(pool.num_blocks):
            entry = index.entry_of(block, group=group)
            if entry is not None:
                cached.add(block)
                holders[block] += 1
                relied[block] = entry.num_tokens
        for sequence in held:
            _count_holder(sequence, group, size, holders, relied)
        pool.check_integrity(holders, relied, cached, name=("full", "window")[group])


def _count_holder(
    sequence: CachedSequence, group: int, size: int, holders: list[int], relied: list[int]
) -> None:
    table = sequence.tables[group]
    assert len(table) == -(-sequence.length // size) or sequence.swapped is not None, (
        f"a sequence of {sequence.length} tokens has {len(table)} blocks of {size}"
    )
    for number, block in enumerate(table):
        assert (block == NO_BLOCK) == (group == WINDOW and number < sequence.first_seen)
        if block != NO_BLOCK:
            holders[block] += 1
            relied[block] = max(relied[block], min(size, sequence.length - number * size))
    growth = sequence.growth
    for block in growth.fresh[group] if growth is not None and growth.fresh else ():
        holders[block] += 1
