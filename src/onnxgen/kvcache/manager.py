"""`CacheManager`: what of each sequence is in the cache, and which blocks hold it.

One accounting for backends with pages and backends with slots, because a slot is one block as long as the slot.
Blocks are shared by reference; a writer that is not alone copies first, unless it is at the tip (`BlockPool`).
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.errors import StateError
from onnxgen.kvcache.base import FULL, WINDOW, Extra, PoolShape, Tokens
from onnxgen.kvcache.capacity import capacity_tokens, missing_blocks
from onnxgen.kvcache.integrity import check_blocks
from onnxgen.kvcache.prefix_cache import PrefixCache
from onnxgen.kvcache.prefix_view import PrefixView, latest_prefixes
from onnxgen.kvcache.reservation import Reservation
from onnxgen.kvcache.sequence import CachedSequence, Checkpoint
from onnxgen.kvcache.sharing import cut, own_tail, pin
from onnxgen.kvcache.supply import BlockSupply
from onnxgen.kvcache.swapping import swap_in, swap_out
from onnxgen.kvcache.tiers import Tiers
from onnxgen.kvcache.usage import CacheUsage, group_usage


class CacheManager:
    """Block tables of open sequences over one pool. For one thread.

    Args:
        shape: What there is to share out.
        prefix_reuse: Keep what sequences leave behind, for others that begin with the same tokens.
        tiers: Where swapped sequences go, and prefixes that have to leave the pool; None: nowhere.
    """

    def __init__(
        self,
        shape: PoolShape,
        *,
        prefix_reuse: bool = True,
        tiers: Tiers | None = None,
    ) -> None:
        self._shape = shape
        self._tiers = tiers
        self._supply = BlockSupply(shape, tiers=tiers)
        self._prefixes = PrefixCache(self._supply, enabled=prefix_reuse)
        self._sequences: dict[int, CachedSequence] = {}
        self._checkpoints: dict[int, Checkpoint] = {}
        self._swapped_out = self._swapped_in = 0

    @property
    def shape(self) -> PoolShape:
        """What there is to share out."""
        return self._shape

    def open(self, seq: int, tokens: Tokens, *, extra: Extra = None, reuse_limit: int | None = None) -> int:
        """Begin a sequence with the longest beginning that can be reused, but for the last token.

        Args:
            seq: A number of the caller's choice.
            tokens: Its tokens so far. The object is kept to see what the sequence will hold, not changed.
            extra: What the content depends on besides.
            reuse_limit: Tokens from there on are computed though others have; None: only the last one is.

        Returns:
            Tokens that need no computing.

        Raises:
            StateError: There is an open sequence of that number.
        """
        self._check_new(seq)
        prefix = self._prefixes.take(tokens, extra, limit=reuse_limit)
        sequence = CachedSequence(len(self._supply.pools), extra=extra, tokens=tokens)
        sequence.length, sequence.first_seen = prefix.length, prefix.first_seen
        sequence.tables = prefix.tables(len(self._supply.pools))
        sequence.num_published = prefix.length // self._shape.block_size
        sequence.entry = prefix.entries[sequence.num_published - 1] if sequence.num_published else None
        if not self._shape.can_copy:
            own_tail(sequence, self._supply)
        self._sequences[seq] = sequence
        return prefix.length

    def would_reuse(self, tokens: Tokens, *, extra: Extra = None, reuse_limit: int | None = None) -> int:
        """What `open` would return if the tiers do not fail and there is room for what they keep; changes nothing."""
        return self._prefixes.reusable(tokens, extra, limit=reuse_limit).length

    def would_share(self, tokens: Tokens, *, extra: Extra = None, reuse_limit: int | None = None) -> int:
        """How much of that lies in full blocks that open sequences hold, and so takes no block from anybody."""
        return self._prefixes.shared(tokens, extra, limit=reuse_limit)

    def coming_prefix(self, tokens: Tokens, *, extra: Extra = None, reuse_limit: int | None = None) -> int:
        """The longest beginning shared with what an open sequence will hold once its known tokens are computed.

        Returns:
            0 if that is not longer than `would_reuse`.
        """
        return self._prefixes.coming(tokens, extra, self._sequences.values(), limit=reuse_limit)

    def length(self, seq: int) -> int:
        """Tokens of a sequence that need no computing."""
        return self._sequence(seq).length

    def blocks(self, seq: int) -> Sequence[int]:
        """A sequence's block table, without what a step in progress adds."""
        return self._sequence(seq).tables[FULL]

    def window_blocks(self, seq: int) -> Sequence[int]:
        """Likewise of the windowed group, ``NO_BLOCK`` where a block was given back; empty without the group."""
        tables = self._sequence(seq).tables
        return tables[WINDOW] if len(tables) > 1 else ()

    def begin_step(self) -> Reservation:
        """Start to reserve what a step will write."""
        return Reservation(self._supply, self._sequence, self._prefixes.publish_step)

    @property
    def capacity_tokens(self) -> int:
        """The longest sequence that the whole pool holds, in tokens."""
        return capacity_tokens(self._shape)

    def fits_ever(self, num_tokens: int) -> bool:
        """Whether a sequence of that length fits into the pool when it is alone."""
        return num_tokens <= self.capacity_tokens

    def missing_blocks(self, num_tokens: int, *, seq: int | None = None) -> int:
        """How many blocks more are needed than are free or given up by the prefix index.

        Args:
            num_tokens: By how much a sequence is to grow. Of windowed layers, as much counts as it takes to begin.
            seq: The sequence; None: a new one, which reuses nothing.
        """
        sequence = self._sequence(seq) if seq is not None else CachedSequence(len(self._supply.pools))
        return missing_blocks(self._supply, sequence, num_tokens)

    def fork(self, parent: int, child: int) -> None:
        """Begin a sequence that holds what another one holds; blocks are copied when one of them writes.

        A backend that cannot copy blocks shares whole ones only, and the rest is computed again. So is all that a
        sequence holds which is swapped out.

        Raises:
            StateError: There is no such parent, it takes part in a step, or the child's number is taken.
        """
        self._check_new(child)
        self._sequences[child] = pin(self._idle_sequence(parent, "forked"), self._supply)

    def rewind(self, seq: int, length: int) -> None:
        """Forget what lies behind the first ``length`` tokens.

        The sequence may become shorter than that, down to nothing, and the rest is to be computed again: where the
        state is recurrent, where windowed layers' blocks were given back, where blocks cannot be copied.

        Raises:
            StateError: The sequence holds fewer tokens, is swapped out, or takes part in a step.
        """
        sequence = self._idle_sequence(seq, "rewound")
        if sequence.swapped is not None:
            raise StateError(f"sequence {seq} is swapped out: swap it in before rewinding it")
        if not 0 <= length <= sequence.length:
            raise StateError(
                f"sequence {seq} holds {sequence.length} tokens and cannot be rewound to {length}"
            )
        if length < sequence.length:
            cut(sequence, self._supply, 0 if self._shape.exact else length)

    def checkpoint(self, seq: int) -> Checkpoint:
        """Pin what a sequence holds, so that `restore` brings it back, as often as wanted, until `drop`.

        Raises:
            StateError: There is no such sequence, it takes part in a step, or it is swapped out.
        """
        sequence = self._idle_sequence(seq, "pinned")
        if sequence.swapped is not None:
            raise StateError(f"sequence {seq} is swapped out: swap it in before taking a checkpoint")
        checkpoint = Checkpoint(seq, pin(sequence, self._supply))
        self._checkpoints[id(checkpoint)] = checkpoint
        return checkpoint

    def restore(self, checkpoint: Checkpoint) -> None:
        """Turn a sequence back into what it was. The checkpoint stays.

        Raises:
            StateError: The checkpoint was dropped, or its sequence is not open or takes part in a step.
        """
        if id(checkpoint) not in self._checkpoints:
            raise StateError(
                f"this checkpoint of sequence {checkpoint.seq} was dropped, or is of another cache"
            )
        sequence = self._idle_sequence(checkpoint.seq, "restored")
        pinned = pin(checkpoint.pinned, self._supply)
        self._let_go(sequence)
        sequence.copy_tables(pinned)

    def drop(self, checkpoint: Checkpoint) -> None:
        """Unpin a checkpoint. Doing it twice is harmless."""
        if self._checkpoints.pop(id(checkpoint), None) is not None:
            self._supply.release(checkpoint.pinned.tables)

    def release(self, seq: int, tokens: Tokens | None) -> None:
        """End a sequence.

        Args:
            seq: The sequence.
            tokens: Its tokens: what it holds may be reused by others, a partial last block too. None: forget it.

        Raises:
            StateError: There is no such sequence, or it takes part in a step.
        """
        sequence = self._idle_sequence(seq, "released")
        if tokens is not None:
            assert len(tokens) >= sequence.length, f"sequence {seq} has too few tokens"
            self._prefixes.publish_all(sequence, tokens)
        self._let_go(sequence)
        del self._sequences[seq]

    def swap_out(self, seq: int) -> bool:
        """Move what a sequence holds to the tiers, so that its blocks are free.

        Returns:
            False: there are no tiers, or no room in them, or it holds nothing; nothing was changed.

        Raises:
            StateError: It is not open, takes part in a step, or is swapped out already.
        """
        sequence = self._idle_sequence(seq, "swapped out")
        if sequence.swapped is not None:
            raise StateError(f"sequence {seq} is swapped out already")
        left = self._tiers is not None and swap_out(sequence, self._supply, self._tiers)
        self._swapped_out += left
        return left

    def swap_in(self, seq: int) -> bool:
        """Bring back what a sequence held. If the tiers have lost it, the sequence holds nothing and can go on.

        Returns:
            False: there are not enough blocks; nothing was changed.

        Raises:
            StateError: It is not open, or is not swapped out.
        """
        sequence = self._sequence(seq)
        if sequence.swapped is None or self._tiers is None:
            raise StateError(f"sequence {seq} is not swapped out")
        done = swap_in(sequence, sequence.swapped, self._supply, self._tiers)
        self._swapped_in += done
        return done

    def is_swapped(self, seq: int) -> bool:
        """Whether what a sequence holds is in the tiers."""
        return self._sequence(seq).swapped is not None

    def forget_prefixes(self) -> None:
        """Empty the prefix cache. What open sequences hold stays."""
        self._prefixes.clear()

    def latest_prefixes(self, most: int) -> tuple[PrefixView, ...]:
        """Of the prefix cache the beginnings of whole blocks that were used last, latest first."""
        return latest_prefixes(self._supply.index, block_size=self._shape.block_size, most=most)

    def usage(self) -> CacheUsage:
        """The numbers of this moment."""
        supply, shape = self._supply, self._shape
        block_bytes = (shape.block_bytes, shape.window_block_bytes)
        groups = [group_usage(pool, size) for pool, size in zip(supply.pools, block_bytes, strict=False)]
        return CacheUsage(
            full=groups[FULL],
            window=groups[WINDOW] if len(groups) > 1 else None,
            block_size=shape.block_size,
            sequences=len(self._sequences),
            swapped=sum(s.swapped is not None for s in self._sequences.values()),
            checkpoints=len(self._checkpoints),
            queried_tokens=self._prefixes.queried_tokens,
            hit_tokens=self._prefixes.hit_tokens,
            copies=supply.num_copies,
            evicted=supply.num_evicted,
            reclaimed=supply.num_reclaimed,
            failures=supply.num_failures,
            collisions=supply.index.collisions,
            swapped_out=self._swapped_out,
            swapped_in=self._swapped_in,
            tiers=None if self._tiers is None else self._tiers.usage(),
        )

    def _sequence(self, seq: int) -> CachedSequence:
        sequence = self._sequences.get(seq)
        if sequence is None:
            raise StateError(f"sequence {seq} is not open")
        return sequence

    def _idle_sequence(self, seq: int, what: str) -> CachedSequence:
        sequence = self._sequence(seq)
        if sequence.growth is not None:
            raise StateError(
                f"sequence {seq} takes part in a step and cannot be {what}: commit, roll back or withdraw it first"
            )
        return sequence

    def _check_new(self, seq: int) -> None:
        if seq in self._sequences:
            raise StateError(f"sequence {seq} is open already: release it first, or choose another number")

    def _let_go(self, sequence: CachedSequence) -> None:
        self._supply.release(sequence.tables)
        if sequence.swapped is not None and self._tiers is not None:
            self._tiers.discard(sequence.swapped.key)
            sequence.swapped = None

    def check_integrity(self) -> None:
        """Check that every block is accounted for.

        Raises:
            AssertionError: With the whole sum.
        """
        held = [*self._sequences.values(), *(c.pinned for c in self._checkpoints.values())]
        check_blocks(self._supply, held)
        lost = [
            s.swapped.key for s in held if s.swapped is not None and s.swapped.key not in (self._tiers or ())
        ]
        assert not lost, f"sequences are swapped out, and the tiers do not keep {lost}"
