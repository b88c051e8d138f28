"""What blocks would hold if a backend wrote them: steps write tokens, and sequences read them back."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.kvcache.base import FULL, NO_BLOCK, WINDOW, Copy, PoolShape

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
