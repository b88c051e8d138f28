"""`RotarySwitch`: sequences above a length have keys with other rotary factors than those below it."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TypedDict

from onnxgen.kvcache.base import Extra


class RotarySide(TypedDict):
    """Fields of a `Job` that say which rotary factors its keys are made with."""

    lane: Hashable
    extra: Extra
    min_chunk_end: int


class RotarySwitch:
    """Which side of the switch sequences are on.

    ::

        tokens                   1 ... switch | switch + 1 ...
        computed with       short factors     |  long factors, from the first token on

    A step has one kind only, and what was computed with one is of no use to the other.

    Args:
        length: See `DecoderModel.rope_switch_length`; None: there is no switch.

    Attributes:
        exists: Whether there is one.
    """

    def __init__(self, length: int | None) -> None:
        self._length = length
        self.exists = length is not None

    def side(self, num_tokens: int, *, lane: Hashable = None, extra: Extra = None) -> RotarySide:
        """Keeps a sequence of so many tokens apart from those on the other side: in steps, and in the prefix cache.

        Its first chunk reaches across the switch, because a step picks its factors by the positions in it.

        Args:
            num_tokens: Length of the sequence.
            lane: What else keeps it apart from others in steps.
            extra: What else its content depends on.
        """
        if self._length is None or num_tokens <= self._length:
            return RotarySide(lane=(lane, False), extra=extra, min_chunk_end=0)
        return RotarySide(lane=(lane, True), extra=(extra, True), min_chunk_end=self._length + 1)

    def is_crossed_by(self, num_tokens: int) -> bool:
        """Whether the last of so many tokens is the first on the other side."""
        return num_tokens - 1 == self._length

    def tokens_before(self, num_tokens: int) -> int:
        """How many tokens a sequence of so many may get at once and stay on its side."""
        if self._length is None or num_tokens > self._length:
            return sys.maxsize
        return self._length - num_tokens
