"""`CacheUsage`: what the cache holds and what it has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.kvcache.block_pool import BlockPool
from onnxgen.kvcache.tiers import TierUsage


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """Blocks of one group: ``total = free + in_use + cached``.

    Attributes:
        total: All of them.
        free: Nobody holds them.
        in_use: Sequences, checkpoints or a step being planned hold them.
        cached: Only the prefix index holds them: they leave when room is needed.
        block_bytes: Memory of one.
        allocated: Handed out so far.
        freed: Came back so far.
    """

    total: int
    free: int
    in_use: int
    cached: int
    block_bytes: int
    allocated: int
    freed: int

    @property
    def used_bytes(self) -> int:
        """Memory of the blocks in use."""
        return self.in_use * self.block_bytes


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """The cache at one moment; counters run from its beginning.

    Attributes:
        full: Blocks of the layers that see the whole sequence.
        window: Blocks of the layers that see a window; None without such a group.
        block_size: Token positions of a block.
        sequences: Open sequences, swapped ones included.
        swapped: Of these, how many are swapped out.
        checkpoints: Checkpoints not yet dropped.
        queried_tokens: Tokens of all sequences that were opened.
        hit_tokens: Of these, how many needed no computing.
        copies: Block copies that were committed.
        evicted: Blocks that the prefix index gave up because room was needed.
        reclaimed: Blocks given back because no window reached them any more.
        failures: How often no block could be had.
        collisions: How often a prefix key was found that belongs to other tokens.
        swapped_out: Sequences swapped out so far.
        swapped_in: Sequences swapped in so far.
        tiers: What lies outside the pool; None without tiers.
    """

    full: GroupUsage
    window: GroupUsage | None
    block_size: int
    sequences: int
    swapped: int
    checkpoints: int
    queried_tokens: int
    hit_tokens: int
    copies: int
    evicted: int
    reclaimed: int
    failures: int
    collisions: int
    swapped_out: int
    swapped_in: int
    tiers: TierUsage | None

    @property
    def groups(self) -> tuple[GroupUsage, ...]:
        """The groups that there are."""
        return (self.full,) if self.window is None else (self.full, self.window)


def group_usage(pool: BlockPool, block_bytes: int) -> GroupUsage:
    """The numbers of one group."""
    return GroupUsage(
        total=pool.num_blocks,
        free=pool.num_free,
        in_use=pool.num_blocks - pool.num_free - pool.num_cached,
        cached=pool.num_cached,
        block_bytes=block_bytes,
        allocated=pool.num_allocated,
        freed=pool.num_freed,
    )
