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
    held = list(held)
    for sequence in held:
        _check_sequence(sequence, size)
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


def _check_sequence(sequence: CachedSequence, size: int) -> None:
    """What a sequence says of itself agrees: where it is, how long, and how much of it others may find."""
    name = f"a sequence of {sequence.length} tokens"
    if sequence.swapped is not None:
        assert not any(sequence.tables) and sequence.growth is None, f"{name} is swapped out and has blocks"
    for table in sequence.tables:
        num_blocks = 0 if sequence.swapped is not None else -(-sequence.length // size)
        assert len(table) == num_blocks, f"{name} has {len(table)} blocks of {size}"
    entry = sequence.entry
    assert (entry is None) == (sequence.num_published == 0), f"{name} does not know its last published block"
    if entry is not None and entry.resident:
        published = entry.start + entry.num_tokens
        assert published == sequence.num_published * size <= sequence.length, (
            f"{name} says that {sequence.num_published} blocks are published, the index has {published} tokens"
        )


def _count_holder(
    sequence: CachedSequence, group: int, size: int, holders: list[int], relied: list[int]
) -> None:
    table = sequence.tables[group]
    for number, block in enumerate(table):
        assert (block == NO_BLOCK) == (group == WINDOW and number < sequence.first_seen)
        if block != NO_BLOCK:
            holders[block] += 1
            relied[block] = max(relied[block], min(size, sequence.length - number * size))
    growth = sequence.growth
    for block in growth.fresh[group] if growth is not None and growth.fresh else ():
        holders[block] += 1
