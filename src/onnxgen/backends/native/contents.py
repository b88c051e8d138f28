"""What is known of the content of cache blocks, so that a step which reads what nobody wrote is refused.

A sequence of 21 tokens that a step takes to 25, in blocks of 8:

    block       0         1         2            3
    context     |xxxxxxxx|xxxxxxxx|xxxxx   |               must have been written
    after       |xxxxxxxx|xxxxxxxx|xxxxxxxx|x       |      counts as written when the step has succeeded

Of layers that see a window, blocks before it need not be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxgen.backends.base import BlockCopy, Step
from onnxgen.errors import StepError


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence of a step, in one group of blocks.

    Attributes:
        context_len: Tokens in the cache before the step.
        total: Tokens after it.
        blocks: Its blocks, as far as the step's table is wide.
        first: The first position that is read.
    """

    context_len: int
    total: int
    blocks: Sequence[int]
    first: int = 0


def spans_of(step: Step, *, window: int | None = None) -> list[list[Span]]:
    """The sequences of a step, for each group of blocks that it has a table of.

    Args:
        step: A step that was checked.
        window: Positions that layers of the second group see.
    """
    ends: list[int] = step.cu_seqlens.tolist()
    contexts: list[int] = step.context_lens.tolist()
    totals = [context + ends[i + 1] - ends[i] for i, context in enumerate(contexts)]
    groups = [[Span(*span) for span in zip(contexts, totals, step.block_table.tolist(), strict=True)]]
    if step.window_table is not None and window is not None:
        firsts = [max(context - window + 1, 0) for context in contexts]
        windows = zip(contexts, totals, step.window_table.tolist(), firsts, strict=True)
        groups.append([Span(*span) for span in windows])
    return groups


class BlockContents:
    """How many positions of each block hold something, and of what kind.

    Args:
        num_blocks: Blocks of the pool.
        block_size: Positions of each.
        switch_length: Longer sequences use other rotary tables; None: there are no others.
    """

    def __init__(self, num_blocks: int, block_size: int, *, switch_length: int | None) -> None:
        self._size, self._switch_length = block_size, switch_length
        self._written = [0] * num_blocks
        self._long = [False] * num_blocks

    def written(self, block: int) -> int:
        """How many positions of a block hold something; what lies beyond is stale."""
        return self._written[block]

    def has_long(self, block: int) -> bool:
        """Whether a block's content was made with the rotary tables of long sequences."""
        return self._long[block]

    def filled(self, block: int, num_tokens: int, *, long: bool) -> None:
        """Note content that came from elsewhere."""
        self._written[block], self._long[block] = num_tokens, long

    def check(self, spans: Sequence[Span], copies: Sequence[BlockCopy]) -> None:
        """Refuse a step that reads positions which nobody wrote, or that other rotary tables made.

        Raises:
            StepError: Naming the sequence.
        """
        written, long = self._after(copies)
        for i, span in enumerate(spans):
            begin = span.first // self._size
            full, rest = divmod(span.context_len, self._size)
            holes = [b for b in span.blocks[begin:full] if written[b] < self._size]
            if rest and written[span.blocks[full]] < rest:
                holes.append(span.blocks[full])
            if holes:
                raise StepError(
                    f"sequence {i} has context_len {span.context_len}, but only {written[holes[0]]} positions of "
                    f"its block {holes[0]} were written"
                )
            if self._switch_length is None:
                continue
            if any(long[b] != self._is_long(span.total) for b in span.blocks[begin : full + bool(rest)]):
                raise StepError(
                    f"sequence {i} goes to {span.total} tokens, on the other side of {self._switch_length}, where "
                    "this model's rotary tables change; it must start again from its first token"
                )

    def copied(self, copies: Sequence[BlockCopy]) -> None:
        """Note copies that were done, in order."""
        self._written, self._long = self._after(copies)

    def begin(self, spans: Sequence[Span]) -> None:
        """Forget what a step is about to write: should it fail, those positions hold nothing."""
        for span in spans:
            self._note(span, span.context_len)

    def end(self, spans: Sequence[Span]) -> None:
        """Note what a step has written."""
        for span in spans:
            is_long = self._is_long(span.total)
            for block in self._note(span, span.total):
                self._long[block] = is_long

    def _note(self, span: Span, length: int) -> Sequence[int]:
        """Blocks that the step writes hold the sequence up to a length; returns them."""
        first, behind = span.context_len // self._size, -(-span.total // self._size)
        blocks = span.blocks[first:behind]
        for number, block in enumerate(blocks, first):
            self._written[block] = max(0, min(self._size, length - number * self._size))
        return blocks

    def _is_long(self, length: int) -> bool:
        return self._switch_length is not None and length > self._switch_length

    def _after(self, copies: Sequence[BlockCopy]) -> tuple[list[int], list[bool]]:
        """What blocks hold once copies have been done in order."""
        if not copies:
            return self._written, self._long
        written, long = list(self._written), list(self._long)
        for c in copies:
            if c.source == c.target or not c.num_tokens:
                continue
            copied = min(c.num_tokens, written[c.source])
            # More than was there is copied as nothing: what lay behind it in the target stays, if it joins up.
            joins_up = copied == c.num_tokens and c.num_tokens < written[c.target]
            written[c.target] = written[c.target] if joins_up else copied
            long[c.target] = long[c.source]
        return written, long
