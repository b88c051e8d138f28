"""`PrefixCache`: what sequences leave for others that begin with the same tokens, and what a new one takes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnxgen.kvcache.base import FULL, NO_BLOCK, Extra, Tokens
from onnxgen.kvcache.prefix_entry import Entry, PrefixHit
from onnxgen.kvcache.reuse import Prefix, common_beginning, reusable
from onnxgen.kvcache.sequence import CachedSequence
from onnxgen.kvcache.supply import BlockSupply


class PrefixCache:
    """The prefix index as sequences use it: what they find, hold and publish.

    Args:
        supply: The blocks, and the index over them.
        enabled: False: nothing is published, and nothing found.

    Attributes:
        queried_tokens: Tokens of all sequences that asked so far.
        hit_tokens: Of these, how many were there.
    """

    def __init__(self, supply: BlockSupply, *, enabled: bool) -> None:
        self._supply = supply
        self._enabled = enabled
        self.queried_tokens = 0
        self.hit_tokens = 0

    def take(self, tokens: Tokens, extra: Extra, *, limit: int | None = None) -> Prefix:
        """The longest beginning that can be reused, but for the last token; its blocks are held from now on.

        Args:
            tokens: Of the sequence.
            extra: What its content depends on besides.
            limit: No more than so many tokens.
        """
        hit = self._find(tokens, extra, limit)
        self._supply.index.touch(hit)
        prefix = self._reach(hit, self._in_reach)
        if not all(entry.resident for entry in prefix.entries):
            self._supply.bring_back(prefix)
            prefix = self._reach(hit, _in_pool)
        self._supply.share(prefix.tables(len(self._supply.pools)))
        self.queried_tokens += len(tokens)
        self.hit_tokens += prefix.length
        return prefix

    def reusable(self, tokens: Tokens, extra: Extra, *, limit: int | None = None) -> Prefix:
        """What `take` would give, or more where the tiers fail or there is no room for what they keep."""
        return self._reach(self._find(tokens, extra, limit), self._in_reach)

    def shared(self, tokens: Tokens, extra: Extra, *, limit: int | None = None) -> int:
        """How many reusable tokens lie in full blocks that somebody besides the index holds."""
        references, size = self._supply.pools[FULL].references, self._supply.shape.block_size
        prefix = self.reusable(tokens, extra, limit=limit)
        full = prefix.entries[: prefix.length // size]
        return size * sum(entry.resident and references[entry.block] > 1 for entry in full)

    def coming(
        self, tokens: Tokens, extra: Extra, sequences: Iterable[CachedSequence], *, limit: int | None = None
    ) -> int:
        """The longest beginning shared with what one of some sequences will publish; 0 if no more than is there."""
        if not self._enabled:
            return 0
        longest, most = 0, _most(tokens, limit)
        for sequence in sequences:
            known = sequence.tokens
            if known is None or sequence.length >= len(known) - 1 or sequence.swapped is not None:
                continue
            if sequence.extra == extra:
                common = self._publishable(common_beginning(tokens, known, limit=most))
                if common > sequence.length:  # else it is in the index, or has left it again
                    longest = max(longest, common)
        return longest if longest and longest > self.reusable(tokens, extra, limit=limit).length else 0

    def publish_step(self, sequence: CachedSequence, tokens: Tokens, num_tokens: int) -> None:
        """After a step of ``num_tokens`` that filled a block, or was part of a prompt: let others find it."""
        if not self._enabled:
            return
        shape = self._supply.shape
        if shape.exact:
            every = shape.snapshot_tokens
            if every is not None and num_tokens > 1 and not sequence.length % every:
                self._supply.publish(sequence, tokens, tail=True)
        else:
            self._supply.publish(sequence, tokens, tail=num_tokens > 1 and shape.can_copy)

    def publish_all(self, sequence: CachedSequence, tokens: Tokens) -> None:
        """At a sequence's end: let others find all that it holds, a partial last block too."""
        if self._enabled and sequence.swapped is None:
            self._supply.publish(sequence, tokens, tail=True)

    def clear(self) -> None:
        """Forget all that can be found."""
        self._supply.drop(self._supply.index.clear())

    def _find(self, tokens: Tokens, extra: Extra, limit: int | None) -> PrefixHit:
        most = _most(tokens, limit)
        if not self._enabled or most <= 0:
            return PrefixHit()
        return self._supply.index.find(tokens, extra=extra, limit=most)

    def _reach(self, hit: PrefixHit, in_reach: Callable[[Entry, int], bool]) -> Prefix:
        return reusable(hit, self._supply.shape, in_reach=in_reach)

    def _in_reach(self, entry: Entry, group: int) -> bool:
        spill = self._supply.spill
        return _in_pool(entry, group) or (spill is not None and spill.keeps(entry, group=group))

    def _publishable(self, common: int) -> int:
        """How much of the first ``common`` tokens of a prompt `publish_step` lets others find."""
        shape = self._supply.shape
        if shape.exact:
            every = shape.snapshot_tokens
            return 0 if every is None or not shape.can_copy else common - common % every
        return common if shape.can_copy else common - common % shape.block_size


def _most(tokens: Tokens, limit: int | None) -> int:
    """How many tokens may be reused: the last one is always computed."""
    return len(tokens) - 1 if limit is None else min(limit, len(tokens) - 1)


def _in_pool(entry: Entry, group: int) -> bool:
    return entry.resident and (group == FULL or entry.window_block != NO_BLOCK)
