"""`reusable`: how much of what the prefix index has found a sequence can start from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnxgen.kvcache.base import NO_BLOCK, PoolShape
from onnxgen.kvcache.prefix_entry import Entry, PrefixHit


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where a new sequence begins.

    Attributes:
        length: Tokens that need no computing.
        entries: Entries that hold them, in order; of the last one perhaps not all tokens are used.
        first_seen: Number of the first whose windowed layers' block is needed.
    """

    length: int = 0
    entries: tuple[Entry, ...] = ()
    first_seen: int = 0


def reusable(hit: PrefixHit, shape: PoolShape, *, align: int) -> Prefix:
    """The longest beginning of a hit that a backend can go on from.

    It is a multiple of ``align`` long. Its content is in the pool. Of windowed layers, all that the next token sees
    is there. A part of a block is used where the backend can copy it, or where its only holder, the index, gives
    it away. A recurrent state is used whole.
    """
    size = shape.block_size
    entries = hit.entries if hit.tail is None else (*hit.entries, hit.tail)
    length = min([hit.num_tokens, *(number * size for number, e in enumerate(entries) if not e.resident)])
    while length:
        length = _allowed(length, hit, shape, align=align)
        first_seen = _first_seen(length, shape)
        holes = [n for n in range(first_seen, -(-length // size)) if entries[n].window_block == NO_BLOCK]
        if shape.window is None or not holes:
            return Prefix(length, entries[: -(-length // size)], first_seen)
        length = holes[-1] * size
    return Prefix()


def _allowed(length: int, hit: PrefixHit, shape: PoolShape, *, align: int) -> int:
    aligned = length - length % align
    if shape.exact:
        given_away = shape.can_copy or hit.tail is None or not hit.tail.held
        return aligned if aligned == hit.num_tokens and given_away else 0
    is_whole = aligned == hit.num_tokens and hit.tail is not None and not hit.tail.held
    if shape.can_copy or is_whole:
        return aligned
    return length - length % math.lcm(align, shape.block_size)


def _first_seen(length: int, shape: PoolShape) -> int:
    return 0 if shape.window is None else max(0, length + 1 - shape.window) // shape.block_size
