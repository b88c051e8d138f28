"""`BlockSupply`: where blocks come from, and where they go: free, held, or kept by the prefix index for later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from onnxgen.kvcache.base import FULL, NO_BLOCK, WINDOW, PoolShape, Tokens
from onnxgen.kvcache.block_pool import BlockPool
from onnxgen.kvcache.prefix_entry import Entry
from onnxgen.kvcache.prefix_index import PrefixIndex
from onnxgen.kvcache.reuse import Prefix, entry_tables
from onnxgen.kvcache.sequence import CachedSequence
from onnxgen.kvcache.spill import Spill
from onnxgen.kvcache.tiers import Piece, Tiers


class BlockSupply:
    """The pools of all groups, and the prefix index that holds some of their blocks.

    Attributes:
        shape: What there is to share out.
        pools: One for each group.
        index: Beginnings that may be reused.
        spill: What becomes of entries whose blocks are needed; None: they are forgotten.
        num_evicted: Entries that the index let go of because a block was needed.
        num_reclaimed: Blocks of windowed layers given back because no window reaches them any more.
        num_copies: Block copies that were committed.
        num_failures: How often no block could be had.
    """

    def __init__(self, shape: PoolShape, *, tiers: Tiers | None) -> None:
        self.shape = shape
        self.index = PrefixIndex(shape.block_size, whole=shape.exact or not shape.can_copy)
        self.spill = None if tiers is None else Spill(tiers, self.index, self.drop)
        sizes = [shape.num_blocks] if shape.window is None else [shape.num_blocks, shape.window_blocks]
        self.pools: tuple[BlockPool, ...] = tuple(
            BlockPool(
                size,
                busy=partial(self.index.busy, group=group),
                idle=partial(self.index.idle, group=group),
                exact=shape.exact,
            )
            for group, size in enumerate(sizes)
        )
        self.num_evicted = 0
        self.num_reclaimed = 0
        self.num_copies = 0
        self.num_failures = 0

    def available(self, group: int) -> int:
        """Blocks that `take` could hand out."""
        evictable = self.index.num_evictable if group == FULL else self.index.num_evictable_windows
        return self.pools[group].num_free + evictable

    def take(self, group: int) -> int | None:
        """A block without content, if need be one that the prefix index gives up. None: there is none."""
        pool = self.pools[group]
        while not pool.num_free:
            if not (self._give_up_entry() if group == FULL else self._give_up_window()):
                self.num_failures += 1
                return None
        return pool.acquire()

    def take_like(self, tables: Sequence[Sequence[int]]) -> list[list[int]] | None:
        """As many blocks as there are in tables, with gaps where these have gaps. None: there are not enough."""
        needed = [sum(block != NO_BLOCK for block in table) for table in tables]
        if any(count > self.available(group) for group, count in enumerate(needed)):
            self.num_failures += 1
            return None
        taken: list[list[int]] = []
        for group, table in enumerate(tables):
            blocks = [NO_BLOCK if block == NO_BLOCK else self.take(group) for block in table]
            taken.append([block for block in blocks if block is not None])
        return taken

    def pieces(self, tables: Sequence[Sequence[int]], length: int) -> list[Piece]:
        """The blocks that hold ``length`` tokens, and how much of each."""
        size = self.shape.block_size
        return [
            Piece(block, min(size, length - number * size), group)
            for group, table in enumerate(tables)
            for number, block in enumerate(table)
            if block != NO_BLOCK
        ]

    def longest_step(self, length: int, num_tokens: int) -> int:
        """How many of ``num_tokens`` a step may add to a sequence: up to a slot's end, or to the next snapshot."""
        if not self.shape.paged:
            num_tokens = min(num_tokens, self.shape.block_size - length)
        snapshot_tokens = self.shape.snapshot_tokens
        if snapshot_tokens is not None and num_tokens > 1:
            num_tokens = min(num_tokens, snapshot_tokens - length % snapshot_tokens)
        return num_tokens

    def has_unseen(self, sequence: CachedSequence) -> bool:
        """Whether windowed layers see some of a sequence's blocks no more."""
        return self.shape.first_seen(sequence.length) > sequence.first_seen

    def reclaim(self, sequence: CachedSequence) -> None:
        """Give back the blocks that windowed layers see no more."""
        if not self.has_unseen(sequence):
            return
        table, first_seen = sequence.tables[WINDOW], self.shape.first_seen(sequence.length)
        for number in range(sequence.first_seen, first_seen):
            self.pools[WINDOW].release(table[number])
            table[number] = NO_BLOCK
            self.num_reclaimed += 1
        sequence.first_seen = first_seen

    def take_over(self, group: int, block: int) -> bool:
        """Make a block's holder the only one, if the only other one is the prefix index."""
        pool = self.pools[group]
        if not pool.only_index_besides(block):
            return pool.references[block] == 1
        entry = self.index.entry_of(block, group=group)
        assert entry is not None
        if group == FULL:
            self.drop(self.index.remove(entry))
        else:
            pool.uncache(self.index.give_window_back(entry))
        return True

    def release(self, tables: Iterable[Iterable[int]]) -> None:
        """Hold the blocks of tables no longer: tails first, so that they leave the cache first."""
        for pool, table in zip(self.pools, tables, strict=True):
            for block in reversed(list(table)):
                if block != NO_BLOCK:
                    pool.release(block)

    def share(self, tables: Iterable[Iterable[int]]) -> None:
        """Hold the blocks of tables once more."""
        for pool, table in zip(self.pools, tables, strict=True):
            for block in table:
                if block != NO_BLOCK:
                    pool.share(block)

    def drop(self, entries: Iterable[Entry]) -> None:
        """Release what entries that have left the index name, and what is kept of them."""
        for entry in entries:
            if self.spill is not None:
                self.spill.forget([entry])
            if entry.block != NO_BLOCK:
                self.pools[FULL].uncache(entry.block)
            if entry.window_block != NO_BLOCK:
                self.pools[WINDOW].uncache(entry.window_block)

    def publish(self, sequence: CachedSequence, tokens: Tokens, *, tail: bool) -> None:
        """Let other sequences find full blocks of a sequence, and its partial last one if ``tail`` says so."""
        size, length = self.shape.block_size, sequence.length
        if sequence.entry is not None and not sequence.entry.resident:
            sequence.entry, sequence.num_published = None, 0
        while sequence.num_published < length // size:
            start = sequence.num_published * size
            sequence.entry = self._publish_block(sequence, tokens[start : start + size])
            sequence.num_published += 1
        start = sequence.num_published * size
        if tail and start < length:
            self._publish_block(sequence, tokens[start:length])

    def _publish_block(self, sequence: CachedSequence, tokens: Sequence[int]) -> Entry:
        number, full = sequence.num_published, self.pools[FULL]
        block = sequence.tables[FULL][number]
        window_block = NO_BLOCK if self.shape.window is None else sequence.tables[WINDOW][number]
        published = self.index.publish(sequence.entry, tokens, (block, window_block), extra=sequence.extra)
        self.drop(published.dropped)
        if published.took_block:
            if self.spill is not None:
                self.spill.forget([published.entry])
            full.cache(block)
        if published.took_window_block:
            self.pools[WINDOW].cache(window_block)
        entry = published.entry
        if entry.block != block and len(tokens) == self.shape.block_size:
            # The same content twice: go on with the block that others find, so that who holds a block also
            # holds all before it, and what nobody holds can leave.
            full.share(entry.block)
            full.release(block)
            sequence.tables[FULL][number] = entry.block
        return entry

    def bring_back(self, prefix: Prefix) -> None:
        """Let the content of a prefix come back from the tiers, as far as there is room."""
        held: list[list[int]] = [[] for _ in self.pools]
        for number, entry in enumerate(prefix.entries):
            sees_window = number >= prefix.first_seen
            if entry.resident:
                self.share(entry_tables(entry, len(self.pools), with_window=sees_window))
            elif not self._load(entry, with_window=sees_window):
                break
            for table, blocks in zip(
                held, entry_tables(entry, len(self.pools), with_window=sees_window), strict=True
            ):
                table += blocks
        self.release(held)

    def _load(self, entry: Entry, *, with_window: bool) -> bool:
        """Give an entry blocks and its content again; the caller holds them, too."""
        assert self.spill is not None
        with_window = with_window and self.spill.keeps(entry, group=WINDOW)
        block, window_block = self.take(FULL), self.take(WINDOW) if with_window else None
        tables = [[each] if each is not None else [] for each in (block, window_block)][: len(self.pools)]
        # Making room may have cost the content itself.
        if block is None or not self.spill.keeps(entry):
            self.release(tables)
            return False
        blocks = block, NO_BLOCK if window_block is None else window_block
        if not self.spill.load(entry, blocks):
            self.release(tables)
            self.drop(self.index.remove(entry))
            return False
        self.index.load(entry, blocks)
        for pool, table in zip(self.pools, tables, strict=True):
            for each in table:
                pool.filled[each] = entry.num_tokens
                pool.cache(each)
        return True

    def _give_up_entry(self) -> bool:
        entry = self.index.coldest()
        if entry is None:
            return False
        self.num_evicted += 1
        blocks = None if self.spill is None else self.spill.keep(entry)
        if blocks is None:
            self.drop(self.index.remove(entry))
        else:
            for pool, block in zip(self.pools, blocks, strict=False):
                if block != NO_BLOCK:
                    pool.uncache(block)
        return True

    def _give_up_window(self) -> bool:
        entry = self.index.coldest_window()
        if entry is None:
            return False
        self.num_evicted += 1
        self.pools[WINDOW].uncache(self.index.give_window_back(entry))
        return True
