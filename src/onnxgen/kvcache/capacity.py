"""How long sequences can get, and how many blocks are missing for them to grow."""

from __future__ import annotations

from onnxgen.kvcache.base import WINDOW, PoolShape
from onnxgen.kvcache.sequence import CachedSequence
from onnxgen.kvcache.supply import BlockSupply


def capacity_tokens(shape: PoolShape) -> int:
    """The longest sequence that a whole pool holds, in tokens."""
    longest = shape.block_size * (shape.num_blocks if shape.paged else min(shape.num_blocks, 1))
    if shape.window is not None and shape.window_blocks < _window_span(shape):
        longest = min(longest, shape.block_size * shape.window_blocks)
    return longest


def missing_blocks(supply: BlockSupply, sequence: CachedSequence, num_tokens: int) -> int:
    """How many blocks more a sequence needs to grow than it could get.

    Windowed layers give blocks back as a sequence grows, so of theirs only as many count as it takes to go on.
    """
    size, missing = supply.shape.block_size, 0
    offset = sequence.length % size
    for group, (pool, table) in enumerate(zip(supply.pools, sequence.tables, strict=True)):
        needed = -(-(sequence.length + num_tokens) // size) - len(table)
        available = supply.available(group)
        if group == WINDOW:
            first_seen = max(sequence.first_seen, supply.shape.first_seen(sequence.length))
            held = max(0, len(table) - first_seen)
            needed = min(needed, max(1, _window_span(supply.shape) - held))
            unseen = table[sequence.first_seen : first_seen]
            available += sum(pool.references[block] == 1 + pool.is_cached(block) for block in unseen)
        if table and offset and num_tokens and not pool.may_write(table[-1], offset):
            # A copy of the last block, unless the prefix index has to give it up.
            needed += not (available <= needed and pool.only_index_besides(table[-1]))
        missing += max(0, needed - available)
    return missing


def _window_span(shape: PoolShape) -> int:
    """The most blocks that the positions which one token sees lie in."""
    return ((shape.window or 1) + shape.block_size - 2) // shape.block_size + 1
