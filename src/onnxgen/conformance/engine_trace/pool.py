"""What the positions of a pool's blocks hold, and who relies on them: the model behind `engine_trace`.

What a position holds depends on every token up to it and on nothing else, so its content is an id for that whole
beginning: two positions hold the same exactly if their ids are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

NEVER_WRITTEN = 0
ANYTHING = -1
"""What a failing step leaves behind."""


class Beginnings:
    """Ids for beginnings of sequences, exact and without collisions. Ids count from 1."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int | str | None, int], int] = {}

    def extend(self, chain: list[int], tokens: Sequence[int], *, extra: str | None) -> None:
        """Append the ids of a sequence that goes on with ``tokens``; ``chain`` has the ids so far."""
        past: int | str | None = chain[-1] if chain else extra
        for token in tokens:
            past = self._ids.setdefault((past, token), len(self._ids) + 1)
            chain.append(past)


class Pool:
    """One group of blocks.

    Args:
        num_blocks: Blocks, with ids from 0.
        block_size: Positions of a block.
        window: How many positions a sequence looks back, the own one included; None: all of them.
        exact: A block is one state, which is relied on whole or not at all.
    """

    def __init__(self, num_blocks: int, block_size: int, *, window: int | None, exact: bool) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.exact = exact
        self._window = window
        self._content: dict[int, list[int]] = {}
        # block to {sequence: how many of its first positions it relies on}
        self._holders: dict[int, dict[int, int]] = {}

    @property
    def num_held(self) -> int:
        """Blocks that some sequence relies on."""
        return len(self._holders)

    def content(self, block: int) -> list[int]:
        """What the positions of a block hold: the pool's own list."""
        found = self._content.get(block)
        if found is None:
            found = self._content[block] = [NEVER_WRITTEN] * self.block_size
        return found

    def replace(self, block: int, content: list[int]) -> None:
        """Set every position of a block."""
        self._content[block] = content

    def write(self, table: Sequence[int], start: int, content: Sequence[int]) -> None:
        """Set the positions of a sequence from ``start`` on."""
        at = 0
        for block, first, behind in self.spans(table, start, start + len(content)):
            self.content(block)[first:behind] = content[at : at + behind - first]
            at += behind - first

    def spans(self, table: Sequence[int], start: int, stop: int) -> list[tuple[int, int, int]]:
        """Positions ``[start, stop)`` of a sequence as ``(block, first offset, offset behind the last)``."""
        size = self.block_size
        return [
            (table[i], max(start - i * size, 0), min(stop - i * size, size))
            for i in range(start // size, -(-stop // size))
        ]

    def seen_from(self, length: int) -> int:
        """The first position that a sequence of ``length`` tokens will look at again."""
        return 0 if self._window is None else max(0, length - self._window + 1)

    def first_hole(self, table: Sequence[int], *, start: int, stop: int) -> int | None:
        """The first position within ``[start, stop)`` for which a table has no block, or None."""
        for i in range(start // self.block_size, -(-stop // self.block_size)):
            if i >= len(table) or table[i] < 0:
                return max(start, i * self.block_size)
        return None

    def first_difference(
        self, table: Sequence[int], chain: Sequence[int], *, start: int, stop: int
    ) -> int | None:
        """The first position of ``[start, stop)`` that does not hold what ``chain`` says, or None."""
        at = start
        for block, first, behind in self.spans(table, start, stop):
            wanted, found = chain[at : at + behind - first], self.content(block)[first:behind]
            if wanted != found:
                return at + next(i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b)
            at += behind - first
        return None

    def hold(self, seq: int, table: Sequence[int], *, start: int, stop: int) -> None:
        """A sequence relies on what its blocks hold of positions ``[start, stop)``."""
        for block, _, behind in self.spans(table, start, stop):
            self._holders.setdefault(block, {})[seq] = behind

    def advance(self, seq: int, table: Sequence[int], *, old_length: int, length: int) -> None:
        """A sequence has grown within and behind the blocks it held, and looks back from further on."""
        size = self.block_size
        for i in range(self.seen_from(old_length) // size, self.seen_from(length) // size):
            self._drop_block(seq, table[i])
        self.hold(seq, table, start=max(old_length, self.seen_from(length)), stop=length)

    def drop(self, seq: int, table: Sequence[int]) -> None:
        """A sequence relies on none of these blocks any more."""
        for block in table:
            self._drop_block(seq, block)

    def _drop_block(self, seq: int, block: int) -> None:
        holders = self._holders.get(block)
        if holders is not None and holders.pop(seq, None) is not None and not holders:
            del self._holders[block]

    def holders(self, block: int) -> list[int]:
        """The sequences that rely on a block."""
        return [*self._holders.get(block, ())]

    def endangered(self, block: int, offset: int, *, writer: int | None) -> int | None:
        """A sequence other than ``writer`` that relies on position ``offset`` of a block or a later one, or None."""
        for seq, relied in self._holders.get(block, {}).items():
            if seq != writer and (relied > offset or self.exact):
                return seq
        return None
