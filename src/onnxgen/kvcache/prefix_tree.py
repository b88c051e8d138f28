"""`PrefixTree`: beginnings of sequences as a tree of entries, found by key and compared token by token."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from onnxgen.kvcache.base import Extra, Tokens
from onnxgen.kvcache.block_keys import TOKEN_BYTES, Digest, num_common, pack, root_key
from onnxgen.kvcache.prefix_entry import Entry, PrefixHit


class PrefixTree:
    """Entries by what comes before them and what they hold; knows nothing of blocks.

    Args:
        block_size: Tokens of an entry, at most; only entries with so many have children.
        whole: Entries fit whole or not at all. Otherwise none is to be kept that is the beginning of a sibling,
            for which there are `longer` and `beginning`.
        digest: Makes the keys.

    Attributes:
        collisions: How often a key was found that belongs to something else.
    """

    def __init__(self, block_size: int, *, whole: bool, digest: Digest) -> None:
        self._size, self._whole, self._digest = block_size * TOKEN_BYTES, whole, digest
        self._roots: dict[Extra, Entry] = {}
        self._by_key: dict[bytes, list[Entry]] = {}
        self._length = 0
        self.collisions = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Entry]:
        """All entries, each after its parent."""
        pending = list(self._roots.values())
        for entry in pending:
            pending += entry.children
            if entry.parent is not None:
                yield entry

    def find(self, tokens: Tokens, *, extra: Extra = None, limit: int | None = None) -> PrefixHit:
        """The longest known beginning of ``tokens[:limit]``. Changes nothing."""
        node = self._roots.get(extra)
        if node is None:
            return PrefixHit()
        content = pack(tokens[: len(tokens) if limit is None else max(0, limit)])
        entries: list[Entry] = []
        at = 0
        while at + self._size <= len(content):
            child = self.child(node, content[at : at + self._size])
            if child is None:
                break
            entries.append(child)
            node, at = child, at + self._size
        tail, num_tail = self._longest(node, content[at : at + self._size])
        return PrefixHit(tuple(entries), tail, num_tail, at // TOKEN_BYTES + num_tail)

    def child(self, node: Entry, content: bytes) -> Entry | None:
        """The entry after a node with exactly this content."""
        for entry in self._by_key.get(self._digest(node.key + content), ()):
            if entry.parent is node and entry.content == content:
                return entry
            self.collisions += 1
        return None

    def _longest(self, node: Entry, content: bytes) -> tuple[Entry | None, int]:
        """The child with the longest beginning in common; its neighbours in order cannot have more."""
        if not self._whole:
            at = node.position_of(content)
            near = [(num_common(e.content, content), e) for e in node.children[max(0, at - 1) : at + 1]]
            count, entry = max(near, key=lambda found: found[0], default=(0, None))
            return (entry, count) if count else (None, 0)
        while content:
            at = node.position_of(content)
            if at < len(node.children) and node.children[at].content == content:
                return node.children[at], len(content) // TOKEN_BYTES
            if not at:
                break
            content = content[: num_common(node.children[at - 1].content, content) * TOKEN_BYTES]
        return None, 0

    def root(self, extra: Extra) -> Entry:
        """Where sequences begin."""
        root = self._roots.get(extra)
        if root is None:
            root = self._roots[extra] = Entry(key=root_key(extra, digest=self._digest))
            root.extra = extra
        return root

    def longer(self, node: Entry, content: bytes) -> Entry | None:
        """A child that begins with a content, so that the content alone would add nothing."""
        at = node.position_of(content)
        if self._whole or at == len(node.children):
            return None
        return node.children[at] if node.children[at].content.startswith(content) else None

    def beginning(self, entry: Entry) -> Entry | None:
        """The sibling that is the beginning of an entry; there can be one, and it comes right before in order."""
        parent = entry.parent
        assert parent is not None
        at = parent.position_of(entry.content)
        if self._whole or not at or not entry.content.startswith(parent.children[at - 1].content):
            return None
        return parent.children[at - 1]

    def add(self, entry: Entry, parent: Entry, content: bytes) -> None:
        """Let lookups find an entry after its parent."""
        entry.parent, entry.content, entry.indexed = parent, content, True
        entry.start = parent.start + parent.num_tokens
        entry.key = self._digest(parent.key + content)
        self._by_key.setdefault(entry.key, []).append(entry)
        parent.adopt(entry)
        self._length += 1

    def discard(self, entry: Entry) -> None:
        """Let lookups find an entry no longer; it has no children, or keeps them to be added again."""
        parent = entry.parent
        assert parent is not None
        parent.disown(entry)
        named = self._by_key[entry.key]
        named.remove(entry)
        if not named:
            del self._by_key[entry.key]
        entry.indexed = False
        self._length -= 1
        if parent.parent is None and not parent.children:
            del self._roots[parent.extra]

    def check_integrity(self) -> None:
        """Check every link, order and key.

        Raises:
            AssertionError: Saying what does not agree.
        """
        entries = list(self)
        assert len(entries) == self._length, f"{len(entries)} entries in the tree, {self._length} counted"
        assert sorted(map(id, entries)) == sorted(id(e) for named in self._by_key.values() for e in named)
        for extra, root in self._roots.items():
            assert root.extra == extra and root.children and not root.indexed
        for e in entries:
            parent, size = e.parent, len(e.content)
            assert parent is not None and e in parent.children and e.indexed
            assert e in self._by_key[e.key] and e.key == self._digest(parent.key + e.content)
            assert 0 < size <= self._size and (size == self._size or not e.children), (
                f"an entry of {size} bytes"
            )
            assert e.start == parent.start + parent.num_tokens
        for node in (*self._roots.values(), *entries):
            contents = [e.content for e in node.children]
            assert contents == sorted(set(contents)), "siblings are out of order, or two are equal"
            if not self._whole:
                for left, right in itertools.pairwise(contents):
                    assert not right.startswith(left), "an entry is the beginning of its sibling"
