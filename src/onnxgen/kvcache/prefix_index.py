"""`PrefixIndex`: which beginnings of sequences are in the cache, and who leaves first when room is short.

::

    root ── [system prompt] ── [system prompt] ─┬─ [question A] ── [answer A ...      an entry is a block
                                                ├─ [question B ...                    tails may be partial
                                                └─ [question C] ...

The index holds one reference for each block it names. Whoever counts references says when somebody else begins
and ceases to hold such a block (`busy`, `idle`), so that what may be evicted is known at any time: entries that
nobody holds, nor any entry after them. They leave from the tails, least recently used first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from onnxgen.kvcache.base import FULL, NO_BLOCK, Extra, Tokens
from onnxgen.kvcache.block_keys import Digest, blake2b, pack
from onnxgen.kvcache.prefix_entry import Entry, PrefixHit, Published
from onnxgen.kvcache.prefix_tree import PrefixTree
from onnxgen.kvcache.recency import Recency


class PrefixIndex:
    """A tree of entries, found by a hash over all that they depend on and compared token by token.

    Where entries are reused in part, none is kept that is the beginning of a sibling: it would add nothing.

    Args:
        block_size: Token positions of a block.
        whole: Entries are reused whole or not at all, as a recurrent state is, or where blocks cannot be copied.
        digest: Makes the keys.
    """

    def __init__(self, block_size: int, *, whole: bool = False, digest: Digest = blake2b) -> None:
        self._tree = PrefixTree(block_size, whole=whole, digest=digest)
        self._block_size = block_size
        self._by_block: dict[int, Entry] = {}
        self._by_window_block: dict[int, Entry] = {}
        self._tails = Recency(attrgetter("is_evictable_tail"))
        self._windows = Recency(attrgetter("is_evictable_window"))
        self._now = 0
        self._num_evictable = self._num_evictable_windows = 0

    def __len__(self) -> int:
        """Entries, those whose content is in a tier included."""
        return len(self._tree)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, each after the one before it."""
        return iter(self._tree)

    @property
    def collisions(self) -> int:
        """How often a key was found that belongs to something else."""
        return self._tree.collisions

    @property
    def num_blocks(self) -> int:
        """Blocks that the index holds."""
        return len(self._by_block)

    @property
    def num_window_blocks(self) -> int:
        """Blocks of the window's layers that the index holds."""
        return len(self._by_window_block)

    @property
    def num_evictable(self) -> int:
        """Blocks that could leave one after the other, as `coldest` says."""
        return self._num_evictable

    @property
    def num_evictable_windows(self) -> int:
        """Blocks of the window's layers that could leave one after the other, as `coldest_window` says."""
        return self._num_evictable_windows

    def entry_of(self, block: int, *, group: int = FULL) -> Entry | None:
        """The entry that names a block."""
        return (self._by_block if group == FULL else self._by_window_block).get(block)

    def find(self, tokens: Tokens, *, extra: Extra = None, limit: int | None = None) -> PrefixHit:
        """The longest known beginning of ``tokens[:limit]``. Changes nothing."""
        return self._tree.find(tokens, extra=extra, limit=limit)

    def touch(self, hit: PrefixHit) -> None:
        """What was found is used now."""
        self._now += 1
        for entry in hit.entries if hit.tail is None else (*hit.entries, hit.tail):
            entry.used = self._now

    def publish(
        self,
        parent: Entry | None,
        tokens: Sequence[int],
        blocks: tuple[int, int],
        *,
        extra: Extra = None,
    ) -> Published:
        """A block, which the caller holds, has these tokens after those of the parent.

        Equal content is kept once: the caller goes on with its own block. A block that the index names already
        gets its new content, as when a sequence goes on at the end of a partial block.

        Args:
            parent: The entry before: resident and of a whole block. None: the block is the first.
            tokens: Up to ``block_size`` tokens.
            blocks: The block and that of the window's layers, which may be ``NO_BLOCK``.
            extra: What else the content depends on; where there is a parent, it has said so.
        """
        node = self._tree.root(extra) if parent is None else parent
        assert 0 < len(tokens) <= self._block_size
        assert parent is None or (parent.resident and parent.num_tokens == self._block_size)
        self._now += 1
        content, (block, window_block) = pack(tokens), blocks
        named = self._by_block.get(block)
        found = self._tree.child(node, content) or self._tree.longer(node, content)
        dropped: list[Entry] = []
        if named is not None and named is not found:
            goes_on = found is None and named.parent is node and content.startswith(named.content)
            if goes_on and named.window_block in (NO_BLOCK, window_block):
                self._tree.discard(named)
                self._tree.add(named, self._tree.root(extra) if parent is None else parent, content)
                found = named
            else:
                dropped += self.remove(named)
        if found is None:
            found = Entry()
            self._tree.add(found, self._tree.root(extra) if parent is None else parent, content)
        same = found.content == content
        took = same and not found.resident
        if took:
            self._enter_pool(found, block)
        superfluous = self._tree.beginning(found)
        if superfluous is not None:
            dropped += self.remove(superfluous)
        took_window = (
            same
            and found.window_block == NO_BLOCK
            and window_block != NO_BLOCK
            and window_block not in self._by_window_block
        )
        if took_window:
            self._enter_window_pool(found, window_block)
        found.used = self._now
        return Published(found, took, took_window, tuple(dropped))

    def busy(self, block: int, *, group: int = FULL) -> None:
        """Somebody besides the index holds a block from now on. Blocks that the index does not name are no matter."""
        self._hold(block, group, held=True)

    def idle(self, block: int, *, group: int = FULL) -> None:
        """Nobody besides the index holds a block any more, which counts as a use."""
        self._hold(block, group, held=False)

    def coldest(self) -> Entry | None:
        """The entry whose block should leave first, by `remove` or `unload`. None: none may."""
        return self._tails.coldest()

    def coldest_window(self) -> Entry | None:
        """The entry whose window's block should leave first, by `give_window_back`. None: none may."""
        return self._windows.coldest()

    def remove(self, entry: Entry) -> list[Entry]:
        """Forget an entry and all after it, held or not.

        Returns:
            What left, ends first: release the blocks they name (``block``, ``window_block``), and drop what tiers
            keep of those that name none.
        """
        subtree = [entry]
        for each in subtree:
            subtree += each.children
        for each in reversed(subtree):
            if each.resident:
                self._leave_pool(each)
            self._tree.discard(each)
        return subtree[::-1]

    def clear(self) -> list[Entry]:
        """Forget everything; returns what `remove` returns."""
        beginnings = [e for e in self._tree if not e.start]
        return [e for entry in beginnings for e in self.remove(entry)]

    def unload(self, entry: Entry) -> tuple[int, int]:
        """The content of the `coldest` entry went to a tier: it stays known, without blocks.

        Returns:
            The blocks it named: release them.
        """
        assert entry.is_evictable_tail
        self._leave_pool(entry)
        blocks = entry.block, entry.window_block
        entry.block = entry.window_block = NO_BLOCK
        return blocks

    def load(self, entry: Entry, blocks: tuple[int, int]) -> None:
        """The content of an entry comes back from a tier, to blocks that a sequence and the index hold from now on."""
        assert entry.indexed and not entry.resident
        assert _parent(entry).parent is None or _parent(entry).resident
        self._now += 1
        entry.used = self._now
        self._enter_pool(entry, blocks[0])
        if blocks[1] != NO_BLOCK:
            self._enter_window_pool(entry, blocks[1])

    def give_window_back(self, entry: Entry) -> int:
        """Keep an entry without its window's block; returns that block: release it."""
        block = entry.window_block
        self._leave_window_pool(entry)
        entry.window_block = NO_BLOCK
        return block

    def _enter_pool(self, entry: Entry, block: int) -> None:
        """Give an entry a block, which its caller holds."""
        assert block not in self._by_block
        entry.block = block
        self._by_block[block] = entry
        self._num_evictable += 1
        _parent(entry).resident_children += 1
        self._set_held(entry, held=True)

    def _leave_pool(self, entry: Entry) -> None:
        """Take the block of an entry without resident children from it."""
        self._set_held(entry, held=False)
        assert not entry.is_busy and not entry.resident_children
        if entry.window_block != NO_BLOCK:
            self._leave_window_pool(entry)
        del self._by_block[entry.block]
        self._num_evictable -= 1
        parent = _parent(entry)
        parent.resident_children -= 1
        parent.used = max(parent.used, entry.used)
        if parent.is_evictable_tail:
            self._tails.offer(parent)

    def _enter_window_pool(self, entry: Entry, block: int) -> None:
        assert block not in self._by_window_block
        entry.window_block, entry.window_held = block, True
        self._by_window_block[block] = entry

    def _leave_window_pool(self, entry: Entry) -> None:
        self._num_evictable_windows -= not entry.window_held
        del self._by_window_block[entry.window_block]

    def _hold(self, block: int, group: int, *, held: bool) -> None:
        entry = self.entry_of(block, group=group)
        if entry is None:
            return
        if not held:
            self._now += 1
            entry.used = self._now
        if group == FULL:
            self._set_held(entry, held=held)
        elif entry.window_held != held:
            entry.window_held = held
            self._num_evictable_windows += -1 if held else 1
            if not held:
                self._windows.offer(entry)

    def _set_held(self, entry: Entry, *, held: bool) -> None:
        """Note who holds a block, and on the way to the root who is busy by it: each is passed once each way."""
        was_busy, entry.held = entry.is_busy, held
        while entry.parent is not None and entry.is_busy != was_busy:
            self._num_evictable += 1 if was_busy else -1
            if entry.is_evictable_tail:
                self._tails.offer(entry)
            parent = entry.parent
            entry_was_busy, was_busy = was_busy, parent.is_busy
            parent.busy_children += -1 if entry_was_busy else 1
            entry = parent

    def check_integrity(self) -> None:
        """Check that names, counts and order agree.

        Raises:
            AssertionError: Saying what does not agree.
        """
        self._tree.check_integrity()
        entries = list(self._tree)
        resident = [e for e in entries if e.resident]
        windows = {e.window_block: e for e in entries if e.window_block != NO_BLOCK}
        assert self._by_block == {e.block: e for e in resident}, "blocks and entries do not agree"
        assert self._by_window_block == windows, "blocks of windows and entries do not agree"
        for e in entries:
            parent = _parent(e)
            assert e.resident or not (e.held or e.resident_children or e.window_block != NO_BLOCK)
            assert not e.resident or parent.parent is None or parent.resident, (
                "an entry came back before its parent"
            )
            assert e.resident_children == sum(c.resident for c in e.children)
            assert e.busy_children == sum(c.is_busy for c in e.children)
            assert e in self._tails or not e.is_evictable_tail, "an entry that may leave is not queued"
            assert e in self._windows or not e.is_evictable_window, (
                "a window's block that may leave is not queued"
            )
        free, windows_free = sum(not e.is_busy for e in resident), sum(e.is_evictable_window for e in entries)
        assert self._num_evictable == free, f"{free} may leave, {self._num_evictable} counted"
        assert self._num_evictable_windows == windows_free


def _parent(entry: Entry) -> Entry:
    assert entry.parent is not None
    return entry.parent
