"""`Entry`: one block's worth of a beginning that sequences may share, and what a lookup and a publication give."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

from onnxgen.kvcache.base import NO_BLOCK, Extra
from onnxgen.kvcache.block_keys import TOKEN_BYTES, unpack

_CONTENT = attrgetter("content")


class Entry:
    """A block whose tokens, and all tokens before it, are known. `PrefixIndex` alone changes it.

    Entries form a tree; the roots stand for "no tokens yet", one for each `Extra`.

    Attributes:
        parent: The entry of the block before; a root's is None.
        key: Names everything up to the end of this entry.
        content: The block's tokens as `pack` writes them.
        extra: Of a root: what else its sequences depend on.
        start: Tokens before this entry.
        block: The block, or ``NO_BLOCK`` while its content is in a tier.
        window_block: Likewise of layers that see a window; ``NO_BLOCK`` where it was given back.
        indexed: Whether lookups find it.
        held: Somebody besides the index holds the block.
        window_held: Somebody besides the index holds the window's block.
        busy_children: Children that are busy: held, or with busy children.
        resident_children: Children whose content is in the pool.
        used: When it was used last, in the index's own time.
        children: Entries of blocks that follow, ordered by content, so that neighbours have most in common.
    """

    __slots__ = (
        "block",
        "busy_children",
        "children",
        "content",
        "extra",
        "held",
        "indexed",
        "key",
        "parent",
        "resident_children",
        "start",
        "used",
        "window_block",
        "window_held",
    )

    def __init__(self, *, key: bytes = b"") -> None:
        self.parent: Entry | None = None
        self.key, self.content = key, b""
        self.extra: Extra = None
        self.start = 0
        self.block = self.window_block = NO_BLOCK
        self.indexed = self.held = self.window_held = False
        self.busy_children = self.resident_children = self.used = 0
        self.children: list[Entry] = []

    @property
    def num_tokens(self) -> int:
        """Tokens of this entry."""
        return len(self.content) // TOKEN_BYTES

    @property
    def tokens(self) -> list[int]:
        """Its tokens."""
        return unpack(self.content)

    @property
    def resident(self) -> bool:
        """Whether lookups find it and its content is in the pool: only then may blocks be published after it."""
        return self.indexed and self.block != NO_BLOCK

    @property
    def is_busy(self) -> bool:
        """Whether giving it up would free nothing, or not now."""
        return self.held or self.busy_children > 0

    @property
    def is_evictable_tail(self) -> bool:
        """Whether it may leave the pool now: nobody holds it, and what follows it has left already."""
        return self.resident and not self.is_busy and not self.resident_children

    @property
    def is_evictable_window(self) -> bool:
        """Whether its window's block may leave the pool."""
        return self.indexed and self.window_block != NO_BLOCK and not self.window_held

    def position_of(self, content: bytes) -> int:
        """Where among the children a content is or would be."""
        return bisect_left(self.children, content, key=_CONTENT)

    def adopt(self, child: Entry) -> None:
        """Add a child."""
        self.children.insert(self.position_of(child.content), child)

    def disown(self, child: Entry) -> None:
        """Remove a child."""
        at = self.position_of(child.content)
        assert self.children[at] is child
        del self.children[at]


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """The longest known beginning of a sequence.

    Attributes:
        entries: Entries of whole blocks, in order. Some may have their content in a tier.
        tail: An entry that goes on after them, of whose tokens only some may fit.
        tail_tokens: How many do.
        num_tokens: Tokens of all of it.
    """

    entries: tuple[Entry, ...] = ()
    tail: Entry | None = None
    tail_tokens: int = 0
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a block that was offered to the index.

    Attributes:
        entry: Where its content is found from now on. Its block may be another one with the same content.
        took_block: The index holds the offered block now and did not before: count a reference. What a tier kept of
            the entry is superfluous.
        took_window_block: Likewise.
        dropped: Entries that it made superfluous: release their blocks, or what tiers keep of them.
    """

    entry: Entry
    took_block: bool = False
    took_window_block: bool = False
    dropped: tuple[Entry, ...] = ()
