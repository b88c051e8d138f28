"""What block accounting talks about: tokens, the shape of a pool, and copies between blocks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

NO_BLOCK = -1
"""Stands in a block table where a block was given back because no window reaches it any more."""

FULL, WINDOW = 0, 1
"""Groups of blocks: of layers that see the whole sequence, and of layers that see a window."""

Extra = Hashable
"""What cached content depends on besides tokens: an adapter, a digest of media, a salt. None: nothing."""


class Tokens(Protocol):
    """Token ids of a sequence; a list of integers is one."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __getitem__(self, at: slice, /) -> Sequence[int]:
        """Some of them, in order."""
        ...


@dataclass(frozen=True, slots=True)
class PoolShape:
    """What there is to share out.

    Attributes:
        num_blocks: Blocks of the layers that see the whole sequence, with ids from 0.
        block_size: Token positions of a block, or of a slot where the backend keeps a sequence in one.
        block_bytes: Memory of a block, in bytes.
        window: Positions that the other layers see at most, the own one included; None: there are no others.
        window_blocks: Blocks of these layers, with ids from 0.
        window_block_bytes: Memory of one of these, in bytes.
        can_copy: The backend copies blocks.
        exact: A sequence goes on from its first token or from exactly what was written (recurrent state), so
            that nothing is rewound and no part of a block is reused.
        snapshot_tokens: For ``exact``: a copy of the state is kept at multiples of this many tokens of a prompt
            while there are spare blocks; None: never.
        paged: A sequence may have several blocks. False: one, its slot.
    """

    num_blocks: int
    block_size: int
    block_bytes: int = 0
    window: int | None = None
    window_blocks: int = 0
    window_block_bytes: int = 0
    can_copy: bool = True
    exact: bool = False
    snapshot_tokens: int | None = None
    paged: bool = True

    def first_seen(self, length: int) -> int:
        """Number of the first block that a windowed layer sees from position ``length`` on; 0 without windows."""
        return 0 if self.window is None else max(0, length + 1 - self.window) // self.block_size


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the first ``num_tokens`` positions of block ``source`` to block ``target`` of the same group."""

    source: int
    target: int
    num_tokens: int
    group: int = FULL
