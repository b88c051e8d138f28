"""`Spill`: prefix entries whose blocks were needed, and the tiers that keep their content meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from onnxgen.kvcache.base import FULL, NO_BLOCK, WINDOW
from onnxgen.kvcache.prefix_entry import Entry
from onnxgen.kvcache.prefix_index import PrefixIndex
from onnxgen.kvcache.tiers import Piece, Tiers


class Spill:
    """Knows under which keys the content of which entry is kept.

    An entry without a block is in the index exactly as long as its content is in the tiers::

        in the pool ──keep──> in the tiers ──load──> in the pool
                                  └── the tiers need the room, or lose it: gone, with all entries after it

    Args:
        tiers: Where content is kept.
        index: The entries.
        drop: Called with entries that have left the index.
    """

    def __init__(self, tiers: Tiers, index: PrefixIndex, drop: Callable[[Iterable[Entry]], None]) -> None:
        self._tiers = tiers
        self._index = index
        self._drop = drop
        self._keys: dict[Entry, int] = {}
        self._window_keys: dict[Entry, int] = {}

    def keeps(self, entry: Entry, *, group: int = FULL) -> bool:
        """Whether an entry's content can come back."""
        return entry in (self._keys if group == FULL else self._window_keys)

    def keep(self, entry: Entry) -> tuple[int, int] | None:
        """Put the content of an entry away.

        Returns:
            The blocks that it named, to be released. None: there is no room, and the entry is as it was.
        """
        key = self._tiers.put([Piece(entry.block, entry.num_tokens)], on_drop=partial(self._lose, entry))
        if key is None:
            return None
        self._keys[entry] = key
        if entry.window_block != NO_BLOCK:
            window_key = self._tiers.put(
                [Piece(entry.window_block, entry.num_tokens, WINDOW)],
                on_drop=partial(self._lose_window, entry),
            )
            if window_key is not None:
                self._window_keys[entry] = window_key
        if entry not in self._keys:  # the window's content has pushed it out, which nothing named any more
            self.forget([entry])
            return None
        return self._index.unload(entry)

    def load(self, entry: Entry, blocks: tuple[int, int]) -> bool:
        """Fill blocks with an entry's content, and keep it no longer. False: it is lost."""
        block, window_block = blocks
        key, window_key = self._keys.pop(entry), self._window_keys.pop(entry, None)
        loaded = self._tiers.take(key, [Piece(block, entry.num_tokens)])
        if window_key is not None:
            if window_block == NO_BLOCK:
                self._tiers.discard(window_key)
            else:
                loaded &= self._tiers.take(window_key, [Piece(window_block, entry.num_tokens, WINDOW)])
        return loaded

    def forget(self, entries: Iterable[Entry]) -> None:
        """Keep the content of entries no longer, as far as it is kept."""
        for entry in entries:
            for keys in (self._keys, self._window_keys):
                key = keys.pop(entry, None)
                if key is not None:
                    self._tiers.discard(key)

    def _lose(self, entry: Entry) -> None:
        del self._keys[entry]
        self.forget([entry])
        if entry.indexed and not entry.resident:
            self._drop(self._index.remove(entry))

    def _lose_window(self, entry: Entry) -> None:
        del self._window_keys[entry]

    def check_integrity(self) -> None:
        """Check that what is kept is what the index has no blocks for.

        Raises:
            AssertionError: Saying what is not.
        """
        index = self._index
        self._tiers.check_integrity()
        assert all(key in self._tiers for key in [*self._keys.values(), *self._window_keys.values()])
        assert all(entry.indexed and not entry.resident for entry in self._keys), (
            "content of an entry is kept twice"
        )
        assert self._window_keys.keys() <= self._keys.keys(), "a window's content is kept for nobody"
        assert len(self._keys) == len(index) - index.num_blocks, (
            f"{len(index)} entries, {index.num_blocks} in the pool, {len(self._keys)} in the tiers"
        )
