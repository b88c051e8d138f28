"""`CachedSequence`: the block tables of one sequence, `Growth`: what a step adds, `Checkpoint`: pinned tables."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.kvcache.base import Copy, Extra, Tokens
from onnxgen.kvcache.prefix_entry import Entry


class CachedSequence:
    """What of a sequence is in the cache.

    A windowed group's table, for a window of 7 and a block size of 4, at 14 tokens::

        block        0      1      2      3
        table    [ -1    ,  5   ,  0   ,  3   ]     first_seen = 2 once the next step begins: block 1 goes then
        tokens     0 1 2 3 4 5 6 7 8 9 . . 12 13
                                   |-- seen by token 14: 8 to 14

    Attributes:
        length: Tokens that need no computing.
        tables: Blocks in order, one table for each group; none is longer than ``length`` asks for.
        extra: What the content depends on besides tokens.
        tokens: The sequence's tokens as its owner keeps them, to see what it will hold; None if unknown.
        entry: The prefix index's entry of the last full block that was published; None: there is none.
        num_published: Full blocks published.
        first_seen: Block number from which the windowed group's table has blocks.
        growth: What a step adds that is being planned or is running; None: there is no such step.
        swapped: Where its content is while it has no blocks; None: it is in the pool.
    """

    __slots__ = (
        "entry",
        "extra",
        "first_seen",
        "growth",
        "length",
        "num_published",
        "swapped",
        "tables",
        "tokens",
    )

    def __init__(self, num_groups: int, *, extra: Extra = None, tokens: Tokens | None = None) -> None:
        self.length = 0
        self.tables: list[list[int]] = [[] for _ in range(num_groups)]
        self.extra = extra
        self.tokens = tokens
        self.entry: Entry | None = None
        self.num_published = 0
        self.first_seen = 0
        self.growth: Growth | None = None
        self.swapped: Swapped | None = None

    def same_tables(self) -> CachedSequence:
        """Another sequence with the same blocks; whoever calls it takes the references."""
        other = CachedSequence(0, extra=self.extra)
        other.copy_tables(self)
        return other

    def copy_tables(self, other: CachedSequence) -> None:
        """Name the same blocks as another sequence; whoever calls it takes the references."""
        self.length = other.length
        self.tables = [list(table) for table in other.tables]
        self.entry, self.num_published = other.entry, other.num_published
        self.first_seen = other.first_seen


@dataclass(frozen=True, slots=True)
class Swapped:
    """Content of a sequence in the tiers.

    Attributes:
        key: Its name there.
        tables: As they were, to say how many blocks it takes and which were given back.
    """

    key: int
    tables: list[list[int]]


class Growth:
    """What a step adds to one sequence.

    Attributes:
        sequence: As committed.
        num_tokens: Tokens that the step writes.
        tables: For the step: the committed tables themselves as long as nothing differs.
        fresh: Blocks taken for the step, of each group in the order of its table.
        claimed: Groups whose committed last block is written in place.
        copies: What to copy before the step.
    """

    __slots__ = ("claimed", "copies", "fresh", "num_tokens", "sequence", "tables")

    def __init__(self, sequence: CachedSequence) -> None:
        self.sequence = sequence
        self.num_tokens = 0
        self.tables = sequence.tables
        self.fresh: tuple[list[int], ...] = ()
        self.claimed: tuple[int, ...] = ()
        self.copies: tuple[Copy, ...] = ()


class Checkpoint:
    """A sequence's content as it was, pinned in the cache until `CacheManager.drop`.

    Attributes:
        seq: The sequence it was taken of.
        length: Tokens it holds.
    """

    __slots__ = ("_pinned", "seq")

    def __init__(self, seq: int, pinned: CachedSequence) -> None:
        self.seq = seq
        self._pinned = pinned

    @property
    def length(self) -> int:
        """Tokens it holds."""
        return self._pinned.length

    @property
    def pinned(self) -> CachedSequence:
        """The tables that are pinned: for `CacheManager`."""
        return self._pinned
