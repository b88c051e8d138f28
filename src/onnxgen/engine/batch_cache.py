"""`BatchCache`: the cache of a `Batch`, in equal parts of which every sequence owns one.

Of each sequence it is known how many tokens the cache holds (``BatchRow.cached``), and what behind its last one
(``BatchRow.ahead``). That number is set back when the sequence is, and put at 0 where what the cache holds cannot be kept;
it grows with the steps that are run.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from onnxgen.backends.base import Backend, BlockCopy, KVCache, Step, StepOutput
from onnxgen.engine.batch_row import BatchRow, Snapshot
from onnxgen.engine.moved_blocks import move_blocks
from onnxgen.engine.row_copies import CachedRow, common_length, differing_blocks
from onnxgen.errors import BackendError

logger = logging.getLogger(__name__)


class BatchCache:
    """Room for some sequences, made when it is first needed and replaced by more when they outgrow it.

    Args:
        backend: Makes the cache and executes steps on it.
        num_rows: Sequences.
        first_tokens: Tokens of each that there is room for at first.
        max_tokens: The most that there will be.

    Attributes:
        copies: What the next step has to do first.
    """

    def __init__(self, backend: Backend, *, num_rows: int, first_tokens: int, max_tokens: int) -> None:
        self._backend = backend
        self._num_rows = num_rows
        self._first_tokens, self._max_tokens = first_tokens, max_tokens
        self._cache: KVCache | None = None
        self._capacity = 0
        self.copies: list[BlockCopy] = []

    @property
    def num_bytes(self) -> int:
        """Memory held; 0 before the first step."""
        return self._cache.num_bytes if self._cache else 0

    @property
    def blocks_of(self) -> KVCache | None:
        """What `blocks` are of; another one after the cache was replaced."""
        return self._cache

    def blocks(self, slot: int) -> Sequence[int]:
        """The blocks of a slot, in order."""
        assert self._cache is not None
        if not self._backend.capabilities.paged:
            return (slot,)
        each = self._cache.geometry.num_blocks // self._num_rows
        return range(slot * each, (slot + 1) * each)

    def execute(self, step: Step, rows: Sequence[BatchRow]) -> StepOutput:
        """Run a step, which has all ``copies``; ``rows`` are all there are."""
        assert self._cache is not None
        if not self.copies:
            return self._backend.execute(step, self._cache)
        waiting = [row for row in rows if row.awaits_copies]
        try:
            return self._backend.execute(step, self._cache)
        except BaseException:
            # whether the copies were done is not known, nor whether what they read is still there
            for row in waiting:
                row.cached = 0
            raise
        finally:
            self.copies.clear()
            for row in waiting:
                row.awaits_copies = False

    def forget(self, row: BatchRow, cached: int) -> None:
        """Hold at most ``cached`` tokens of a row, and nothing behind its end.

        Fewer where the backend can go back to a snapshot only, or to 0.
        """
        was_ahead, row.ahead = row.ahead is not None, None
        if row.cached <= cached and not was_ahead:
            return
        cached = min(cached, row.cached)
        if self._backend.capabilities.rewind:
            row.cached = cached
            return
        row.cached = 0
        if self.copies:
            return  # what a copy is still to be made of must stay where it is
        kept = [s for s in (row.snapshot, row.checkpoint) if s and s.length <= cached and s.long == row.long]
        if kept:
            assert self._cache is not None
            snapshot = max(kept, key=lambda s: s.length)
            (block,) = self.blocks(row.slot)
            self._cache.import_block(block, snapshot.content, snapshot.length)
            row.cached = snapshot.length

    def snapshot(self, row: BatchRow) -> Snapshot | None:
        """What the cache holds of a row that was run, where the backend cannot rewind; None if that cannot be had."""
        if self._cache is None or not row.cached or row.awaits_copies:
            return None  # what is still to be copied is kept by the row that it comes from
        (block,) = self.blocks(row.slot)
        known = row.cached == len(row.tokens) and not row.was_set and row.logits is not None
        return Snapshot(
            row.cached,
            row.long,
            self._cache.export_block(block, row.cached),
            row.logits.copy() if known and row.logits is not None else None,
            row.hidden if known else None,
        )

    def copy(self, source: BatchRow, free: list[BatchRow]) -> BatchRow:
        """A copy of a row in the slot of one of those that are ``free``: the one that needs the fewest copies."""
        for row in (source, *free):
            self.forget(row, row.cached)
        if self._cache is None:
            return replace(source, slot=free.pop(0).slot, tokens=source.tokens.copy(), cached=0, long=False)
        wanted = self._cached_row(source)
        held = [self._cached_row(row) for row in free]
        at = max(range(len(free)), key=lambda i: (common_length(wanted, held[i]), -i))
        replaced = free.pop(at)
        row = replace(source, slot=replaced.slot, tokens=source.tokens.copy(), awaits_copies=False)
        can = self._backend.capabilities
        copies = differing_blocks(
            wanted, held[at], block_size=self._cache.geometry.block_size, rewind=can.rewind
        )
        if copies and not can.copy_blocks:
            row.cached = 0
        else:
            self.copies += copies
            row.awaits_copies = replaced.awaits_copies or bool(copies)
        return row

    def reserve(self, num_tokens: int, rows: Sequence[BatchRow]) -> None:
        """Have room for ``num_tokens`` tokens of every row; ``rows`` are all there are.

        There is room for as many as there may be if the memory is there, else for what is, and the cache is replaced when
        more is needed. What it holds is taken over if there is memory for both, and else computed again.

        Raises:
            BackendError: There is no memory for so many.
        """
        if num_tokens <= self._capacity:
            return
        for row in rows:
            self.forget(row, row.cached)
        wanted = self._first_tokens
        while wanted < num_tokens:
            wanted *= 2
        wanted = min(wanted, self._max_tokens)
        if self._cache is not None and self._enlarge(self._cache, wanted, rows):
            self._capacity = wanted
            return
        self.close()
        self._capacity = 0
        self._forget_places(rows)
        for row in rows:
            row.cached = 0
        self._capacity = self._allocate(wanted, least=num_tokens)

    def fork(self, rows: Sequence[BatchRow]) -> tuple[BatchCache, list[BatchRow]]:
        """Another cache and copies of all rows: what this one holds is taken over, or computed again if that cannot be.

        Raises:
            BackendError: Taking over failed.
        """
        other = BatchCache(
            self._backend,
            num_rows=self._num_rows,
            first_tokens=self._first_tokens,
            max_tokens=self._max_tokens,
        )
        for row in rows:
            self.forget(row, row.cached)
        copies = [replace(row, tokens=row.tokens.copy(), awaits_copies=False) for row in rows]
        held = self._cache
        if held is not None and any(row.cached for row in rows):
            with contextlib.suppress(BackendError):  # no memory: all is computed again where there is room
                other._cache = self._backend.create_cache(num_seqs=self._num_rows, num_tokens=self._capacity)
                other._capacity = self._capacity
        for row, copy in zip(rows, copies, strict=True):
            if held is None or other._cache is None or row.awaits_copies or not other._take_over(row, self):
                copy.cached = 0
        return other, copies

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _cached_row(self, row: BatchRow) -> CachedRow:
        held = row.tokens.view()[: row.cached]
        if row.embedded is not None:
            held = row.embedded.marked(held)
        return CachedRow(held, row.long, self.blocks(row.slot))

    def _enlarge(self, old: KVCache, num_tokens: int, rows: Sequence[BatchRow]) -> bool:
        """Replace the cache by a larger one with the same content; False if there is no memory for it."""
        try:
            new = self._backend.create_cache(num_seqs=self._num_rows, num_tokens=num_tokens)
        except BackendError as error:
            logger.info("no cache of %d tokens beside the present one (%s)", num_tokens, error)
            return False
        held = [self.blocks(row.slot) for row in rows]
        self._cache, paged = new, self._backend.capabilities.paged
        for row, blocks in zip(rows, held, strict=True):
            to, length = self.blocks(row.slot), row.cached
            if row.awaits_copies or not move_blocks(
                old, new, paged=paged, blocks=blocks, to=to, num_tokens=length
            ):
                row.cached = 0
        self._forget_places(rows)
        old.close()
        return True

    def _forget_places(self, rows: Sequence[BatchRow]) -> None:
        self.copies.clear()
        for row in rows:
            row.awaits_copies = False

    def _allocate(self, capacity: int, *, least: int) -> int:
        """Make the cache; of how many tokens of every row."""
        while True:
            try:
                self._cache = self._backend.create_cache(num_seqs=self._num_rows, num_tokens=capacity)
            except BackendError as error:
                if capacity <= least:
                    raise
                logger.info("cache of %d tokens refused (%s), trying less", capacity, error)
                capacity = max(least, capacity // 2)
            else:
                return capacity

    def _take_over(self, row: BatchRow, source: BatchCache) -> bool:
        """Hold what another cache does of a row; False where contents do not fit."""
        assert self._cache is not None and source._cache is not None
        return move_blocks(
            source._cache,
            self._cache,
            paged=self._backend.capabilities.paged,
            blocks=source.blocks(row.slot),
            to=self.blocks(row.slot),
            num_tokens=row.cached,
        )
