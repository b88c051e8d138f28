"""`reusable`: how much of what the prefix index has found a sequence can start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnxgen.kvcache.base import FULL, NO_BLOCK, WINDOW, PoolShape, Tokens
from onnxgen.kvcache.prefix_entry import Entry, PrefixHit

_COMPARED_AT_FIRST = 32


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

    def tables(self, num_groups: int) -> list[list[int]]:
        """The blocks that hold it, for each group."""
        full = [entry.block for entry in self.entries]
        window = [
            entry.window_block if number >= self.first_seen else NO_BLOCK
            for number, entry in enumerate(self.entries)
        ]
        return [full, window][:num_groups]


def entry_tables(entry: Entry, num_groups: int, *, with_window: bool) -> list[list[int]]:
    """The blocks of an entry in the pool, for each group."""
    window = [entry.window_block] if with_window and entry.window_block != NO_BLOCK else []
    return [[entry.block], window][:num_groups]


def reusable(hit: PrefixHit, shape: PoolShape, *, in_reach: Callable[[Entry, int], bool]) -> Prefix:
    """The longest beginning of a hit that a backend can go on from.

    Its content is ``in_reach``, by entry and group; of windowed layers, what the next token sees. A part of a block
    is used where the backend can copy it, or where its only holder, the index, gives it away. A recurrent state is
    used whole.
    """
    size = shape.block_size
    entries = hit.entries if hit.tail is None else (*hit.entries, hit.tail)
    length = min(
        [hit.num_tokens, *(number * size for number, e in enumerate(entries) if not in_reach(e, FULL))]
    )
    while length:
        length = _allowed(length, hit, shape)
        first_seen = shape.first_seen(length)
        holes = (
            []
            if shape.window is None
            else [n for n in range(first_seen, -(-length // size)) if not in_reach(entries[n], WINDOW)]
        )
        if not holes:
            return Prefix(length, entries[: -(-length // size)], first_seen)
        length = holes[-1] * size
    return Prefix()


def _allowed(length: int, hit: PrefixHit, shape: PoolShape) -> int:
    if shape.exact:
        given_away = shape.can_copy or hit.tail is None or not hit.tail.held
        return length if length == hit.num_tokens and given_away else 0
    is_whole = length == hit.num_tokens and hit.tail is not None and not hit.tail.held
    return length if shape.can_copy or is_whole else length - length % shape.block_size


def common_beginning(a: Tokens, b: Tokens, *, limit: int) -> int:
    """How many tokens two sequences have in common from the start, ``limit`` at most."""
    same, end, step = 0, max(0, min(limit, len(a), len(b))), _COMPARED_AT_FIRST
    while same < end:
        upto = min(same + step, end)
        if list(a[same:upto]) == list(b[same:upto]):
            same, step = upto, 2 * step
        else:
            end = upto if upto - same > 1 else same
            step = (upto - same) // 2
    return same
