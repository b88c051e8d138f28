"""What blocks would hold if a backend wrote them: steps write tokens, and sequences read them back."""

from __future__ import annotations

import random
from collections.abc import Sequence

from onnxgen.kvcache.base import FULL, NO_BLOCK, WINDOW, Copy, PoolShape
from onnxgen.kvcache.tiers import Piece

SCRIBBLE = -7
"""What a failing step leaves behind."""


class ShadowCache:
    """Tokens by group, block and position.

    A block of an exact pool holds one state, here the tokens it was made of; it is written and copied as a whole.
    """

    def __init__(self, shape: PoolShape) -> None:
        self.shape = shape
        counts = [shape.num_blocks] if shape.window is None else [shape.num_blocks, shape.window_blocks]
        self.blocks: list[list[list[int]]] = [[[] for _ in range(count)] for count in counts]

    def copy(self, copies: Sequence[Copy]) -> None:
        for c in copies:
            assert c.source != c.target
            source = self.blocks[c.group][c.source]
            assert len(source) >= c.num_tokens, "a copy of what was never written"
            assert not self.shape.exact or len(source) == c.num_tokens, "a state can only be copied whole"
            self.blocks[c.group][c.target] = source[: c.num_tokens]

    def write(
        self, tables: Sequence[Sequence[int]], context: Sequence[int], new: Sequence[int], *, fails: bool
    ) -> None:
        """One sequence's part of a step: reads what the layers see, then writes, or scribbles when it fails."""
        self.check(tables, context)
        size, end = self.shape.block_size, len(context) + len(new)
        if self.shape.exact:
            block = self.blocks[FULL][tables[FULL][0]]
            if not context:
                block.clear()
            if not fails:
                block += new
            return
        for group, table in enumerate(tables):
            assert len(table) == -(-end // size), "a table for a step reaches exactly as far as the step"
            for position, token in enumerate(new, len(context)):
                block = self.blocks[group][table[position // size]]
                offset = position % size
                block += [SCRIBBLE] * (offset + 1 - len(block))
                block[offset] = SCRIBBLE if fails else token

    def check(self, tables: Sequence[Sequence[int]], tokens: Sequence[int]) -> None:
        """A sequence of these tokens, all in the cache, reads back its own."""
        size = self.shape.block_size
        if self.shape.exact:
            if tokens:
                assert self.blocks[FULL][tables[FULL][0]] == list(tokens)
            return
        for group, table in enumerate(tables):
            window = self.shape.window if group == WINDOW else None
            first = 0 if window is None else max(0, len(tokens) + 1 - window)
            for position in range(first, len(tokens)):
                block = table[position // size]
                assert block != NO_BLOCK, f"position {position} of {len(tokens)} is seen and has no block"
                held = self.blocks[group][block][position % size : position % size + 1]
                assert held == [tokens[position]], f"position {position} holds {held}"


class ShadowMover:
    """Moves what the shadow's blocks hold: a `BlockMover` that loses things now and then.

    Args:
        cache: The shadow.
        rng: Decides what fails.
        failures: How often, of all calls.
    """

    def __init__(self, cache: ShadowCache, rng: random.Random, *, failures: float) -> None:
        self._cache, self._rng, self.failures = cache, rng, failures
        self.kept: dict[int, list[list[int]]] = {}

    def save(self, key: int, pieces: Sequence[Piece]) -> int | None:
        if self._fails():
            return None
        contents = [self._cache.blocks[p.group][p.block] for p in pieces]
        for piece, content in zip(pieces, contents, strict=True):
            assert len(content) >= piece.num_tokens, "content leaves that was never written"
            assert not self._cache.shape.exact or len(content) == piece.num_tokens
        self.kept[key] = [content[: p.num_tokens] for p, content in zip(pieces, contents, strict=True)]
        return sum(p.num_tokens for p in pieces)

    def to_disk(self, key: int) -> bool:
        assert key in self.kept
        return not self._fails()

    def load(self, key: int, pieces: Sequence[Piece]) -> bool:
        fails = self._fails()
        for piece, content in zip(pieces, self.kept[key], strict=True):
            assert len(content) == piece.num_tokens
            self._cache.blocks[piece.group][piece.block] = [SCRIBBLE] if fails else list(content)
        return not fails

    def forget(self, key: int) -> None:
        del self.kept[key]

    def _fails(self) -> bool:
        return self._rng.random() < self.failures
