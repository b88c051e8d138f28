"""`Reservation`: the blocks that one step will write, so that nothing counts before the step has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from onnxgen.errors import StateError
from onnxgen.kvcache.base import FULL, WINDOW, Copy, Tokens
from onnxgen.kvcache.sequence import CachedSequence, Growth
from onnxgen.kvcache.supply import BlockSupply

_NO_TABLE: list[int] = []


class Reservation:
    """One step's claim on blocks, made by `CacheManager.begin_step`.

    Each sequence that was extended is committed, rolled back or withdrawn, once, in any order::

        committed table    [ 4 , 7 ]             7 is shared, and filled beyond this sequence's end
        table of the step  [ 4 , 9 , 2 ]         copy 7 -> 9 first; 9 and 2 are fresh
        commit             [ 4 , 9 , 2 ]         7 is released
        commit of a part   [ 4 , 9 ]             7 and 2 are released
        rollback           [ 4 , 7 ]             9 and 2 are released
    """

    __slots__ = ("_all_groups", "_growths", "_has_special_layers", "_lookup", "_publish", "_size", "_supply")

    def __init__(
        self,
        supply: BlockSupply,
        lookup: Callable[[int], CachedSequence],
        publish: Callable[[CachedSequence, Tokens, int], None],
    ) -> None:
        self._supply = supply
        self._lookup = lookup
        self._publish = publish
        self._size = supply.shape.block_size
        self._all_groups = tuple(range(len(supply.pools)))
        self._has_special_layers = supply.shape.window is not None or supply.shape.exact
        self._growths: dict[int, Growth] = {}

    def extend(self, seq: int, num_tokens: int) -> int:
        """Reserve room for up to ``num_tokens`` more of a sequence, evicting what nobody uses as needed.

        Returns:
            How many were granted: fewer than asked when blocks are short, when a slot is full, and where a
            snapshot of a recurrent state is due. 0: none, and the sequence takes no part unless it did before.

        Raises:
            StateError: The sequence is not open, is swapped out, or takes part in another step.
        """
        growth = self._growths.get(seq)
        if growth is None:
            sequence = self._lookup(seq)
            if sequence.growth is not None or sequence.swapped is not None:
                reason = (
                    "takes part in another step"
                    if sequence.swapped is None
                    else "is swapped out: swap it in first"
                )
                raise StateError(f"sequence {seq} cannot be extended: it {reason}")
            growth = Growth(sequence)
        granted = num_tokens if self._fits_in_place(growth, num_tokens) else self._grow(growth, num_tokens)
        if granted:
            growth.num_tokens += granted
            growth.sequence.growth = growth
            self._growths[seq] = growth
        return granted

    def extend_by_draft(self, seq: int, num_tokens: int) -> int:
        """Reserve room for up to so many tokens more, behind what was reserved already, of which some may not count.

        Where a sequence goes on only from exactly what was written (`PoolShape.exact`), the step writes a copy of its
        state, in a free block, so that `rollback` leaves it the one it has.

        Returns:
            How many were granted, as `extend` does.

        Raises:
            StateError: The sequence takes no part in this step.
        """
        growth = self._growth(seq)
        if self._supply.shape.exact and not self._writes_copy(growth):
            return 0
        return self.extend(seq, num_tokens)

    def shorten(self, seq: int, num_tokens: int) -> None:
        """Before the step, keep only what was reserved for the first tokens, at least one."""
        growth = self._growth(seq)
        assert 0 < num_tokens <= growth.num_tokens, f"sequence {seq} has {growth.num_tokens} tokens reserved"
        self._cut(growth, growth.sequence.length + num_tokens)

    def withdraw(self, seq: int) -> None:
        """Give back what was reserved for a sequence, before the step."""
        self.rollback(seq)

    def holds(self, seq: int) -> bool:
        """Whether something is reserved for a sequence that is neither committed nor given back."""
        return seq in self._growths

    def copies(self, seqs: Collection[int] | None = None) -> list[Copy]:
        """Block copies to do before a step of these sequences; None: of all."""
        growths = self._growths.values() if seqs is None else [self._growth(seq) for seq in seqs]
        return [copy for growth in growths for copy in growth.copies]

    def blocks(self, seq: int) -> Sequence[int]:
        """A sequence's block table for the step; valid until the sequence is committed or rolled back."""
        return self._growth(seq).tables[FULL]

    def window_blocks(self, seq: int) -> Sequence[int]:
        """Likewise of the windowed group; empty without one."""
        growth = self._growth(seq)
        return growth.tables[WINDOW] if len(growth.tables) > 1 else _NO_TABLE

    def context_len(self, seq: int) -> int:
        """Tokens of a sequence in the cache before the step."""
        return self._growth(seq).sequence.length

    def commit(self, seq: int, tokens: Tokens) -> None:
        """The step has succeeded for a sequence: what it wrote counts, and full blocks may be shared.

        Args:
            seq: The sequence.
            tokens: Its tokens, at least those that are in the cache now.
        """
        growth = self._growth(seq)
        num_tokens = growth.num_tokens
        self._take_effect(seq, growth, tokens)
        sequence = growth.sequence
        if num_tokens > 1 or not sequence.length % self._size:
            self._publish(sequence, tokens, num_tokens)

    def commit_accepted(self, seq: int, tokens: Tokens, num_tokens: int) -> None:
        """Of what the step wrote for a sequence the first tokens count; the blocks of the others are given back.

        Args:
            seq: The sequence.
            tokens: Its tokens, at least those that are in the cache now.
            num_tokens: How many count, at least 1. All of them, where it goes on only from exactly what was written.
        """
        growth = self._growth(seq)
        sequence, reserved = growth.sequence, growth.num_tokens
        assert 0 < num_tokens <= reserved, f"{num_tokens} of {reserved} tokens of sequence {seq} count"
        if num_tokens < reserved:
            assert not self._supply.shape.exact, (
                f"a part of a step counts that sequence {seq} cannot go back to"
            )
            self._cut(growth, sequence.length + num_tokens)
        num_full = sequence.length // self._size
        self._take_effect(seq, growth, tokens)
        if sequence.length // self._size > num_full:
            self._publish(sequence, tokens, 1)

    def rollback(self, seq: int) -> None:
        """The step has failed for a sequence, or will not happen: it is as it was."""
        growth = self._growth(seq)
        del self._growths[seq]
        growth.sequence.growth = None
        self._undo(growth)

    def _growth(self, seq: int) -> Growth:
        growth = self._growths.get(seq)
        if growth is None:
            raise StateError(f"sequence {seq} takes no part in this step: extend it first")
        return growth

    def _take_effect(self, seq: int, growth: Growth, tokens: Tokens) -> None:
        sequence = growth.sequence
        assert sequence.length + growth.num_tokens <= len(tokens), f"sequence {seq} has too few tokens"
        del self._growths[seq]
        for copy in growth.copies:
            self._supply.pools[copy.group].release(copy.source)
            self._supply.num_copies += 1
        sequence.tables = growth.tables
        sequence.length += growth.num_tokens
        sequence.growth = None

    def _cut(self, growth: Growth, end: int) -> None:
        """Give back what lies behind the first ``end`` tokens, some of which the step wrote."""
        kept = -(-end // self._size)
        for pool, table, fresh in zip(self._supply.pools, growth.tables, growth.fresh, strict=False):
            while len(table) > kept:
                assert fresh and fresh[-1] == table[-1]
                pool.release(fresh.pop())
                table.pop()
        for pool, table in zip(self._supply.pools, growth.tables, strict=True):
            pool.filled[table[-1]] = end - (kept - 1) * self._size
        growth.num_tokens = end - growth.sequence.length

    def _writes_copy(self, growth: Growth) -> bool:
        """See to it that the step writes copies of the sequence's last blocks; False: there are no free blocks."""
        sequence, supply = growth.sequence, self._supply
        offset = sequence.length % self._size
        if not offset or len(growth.copies) == len(supply.pools):
            return True
        if not supply.shape.can_copy or not all(pool.num_free for pool in supply.pools):
            return False
        assert not growth.copies and not any(growth.fresh), "a state lies in one block of each group"
        growth.tables = [list(table) for table in sequence.tables]
        growth.fresh = tuple([pool.acquire()] for pool in supply.pools)
        for group, (pool, table) in enumerate(zip(supply.pools, growth.tables, strict=True)):
            (target,) = growth.fresh[group]
            growth.copies += (Copy(table[-1], target, offset, group),)
            pool.filled[table[-1]], pool.filled[target] = offset, offset + growth.num_tokens
            table[-1] = target
        growth.claimed = ()
        return True

    def _fits_in_place(self, growth: Growth, num_tokens: int) -> bool:
        """Claim room in last blocks that the sequence may write; False, and nothing changed, if that is not enough."""
        sequence, supply = growth.sequence, self._supply
        offset = sequence.length % self._size
        if not offset or offset + num_tokens > self._size or growth.num_tokens:
            return False
        if self._has_special_layers and (
            supply.has_unseen(sequence) or num_tokens > supply.longest_step(sequence.length, num_tokens)
        ):
            return False
        for pool, table in zip(supply.pools, sequence.tables, strict=True):
            if not pool.may_write(table[-1], offset):
                return False
        for pool, table in zip(supply.pools, sequence.tables, strict=True):
            pool.filled[table[-1]] = offset + num_tokens
        growth.claimed = self._all_groups
        return True

    def _grow(self, growth: Growth, num_tokens: int) -> int:
        """Take blocks for up to so many tokens more; returns for how many there are."""
        sequence, supply, size = growth.sequence, self._supply, self._size
        if not growth.fresh:
            supply.reclaim(sequence)
            growth.tables = [list(table) for table in sequence.tables]
            growth.fresh = tuple([] for _ in supply.pools)
        start = sequence.length + growth.num_tokens
        end = start + supply.longest_step(start, num_tokens)
        for group in self._all_groups:
            end = self._grow_table(growth, group, start, end)
        for pool, table, fresh in zip(supply.pools, growth.tables, growth.fresh, strict=True):
            while fresh and len(table) > -(-end // size):
                pool.release(fresh.pop())
                table.pop()
            for number in range(start // size, -(-end // size)):
                if end > start:
                    pool.filled[table[number]] = min(size, end - number * size)
        if end == start and not growth.num_tokens:
            self._undo(growth)
        return end - start

    def _grow_table(self, growth: Growth, group: int, start: int, end: int) -> int:
        """Take one group's blocks from ``start`` up to ``end``; returns how far they reach."""
        table, fresh, size = growth.tables[group], growth.fresh[group], self._size
        more = -(-end // size) - len(table)
        if end == start or (start % size and not self._own_tail(growth, group, start % size, more=more)):
            return start
        while len(table) * size < end:
            block = self._supply.take(group)
            if block is None:
                break
            table.append(block)
            fresh.append(block)
        return min(end, len(table) * size)

    def _own_tail(self, growth: Growth, group: int, offset: int, *, more: int) -> bool:
        """See to it that the last block may be written from ``offset`` on: as it is, as a copy, or taken over.

        It is taken over from the prefix index where the copy would need one of ``more`` blocks that are to follow.
        """
        supply, table = self._supply, growth.tables[group]
        tail = table[-1]
        if not supply.pools[group].may_write(tail, offset):
            spare = supply.available(group) > more
            if not (spare and supply.shape.can_copy) and supply.take_over(group, tail):
                growth.claimed += (group,)
                return True
            target = supply.take(group) if supply.shape.can_copy else None
            if target is None:
                return False
            growth.copies += (Copy(tail, target, offset, group),)
            growth.fresh[group].append(target)
            table[-1] = target
        elif not growth.num_tokens:
            growth.claimed += (group,)
        return True

    def _undo(self, growth: Growth) -> None:
        sequence, supply = growth.sequence, self._supply
        for pool, fresh in zip(supply.pools, growth.fresh, strict=False):
            for block in reversed(fresh):
                pool.release(block)
        for group in growth.claimed:
            supply.pools[group].filled[sequence.tables[group][-1]] = sequence.length % self._size
