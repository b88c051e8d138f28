"""`swap_out`, `swap_in`: what a sequence holds moves to the tiers and back."""

from __future__ import annotations

from onnxgen.kvcache.base import NO_BLOCK, WINDOW
from onnxgen.kvcache.sequence import CachedSequence, Swapped
from onnxgen.kvcache.supply import BlockSupply
from onnxgen.kvcache.tiers import Tiers


def swap_out(sequence: CachedSequence, supply: BlockSupply, tiers: Tiers) -> bool:
    """Move out what the next token sees, and release all blocks. False: there is none, or no room; nothing was changed."""
    if not sequence.length:
        return False
    first_seen = max(sequence.first_seen, supply.shape.first_seen(sequence.length))
    seen = [list(table) for table in sequence.tables]
    for table in seen[WINDOW:]:
        table[:first_seen] = [NO_BLOCK] * first_seen
    key = tiers.put(supply.pieces(seen, sequence.length))
    if key is None:
        return False
    supply.release(sequence.tables)
    sequence.first_seen = first_seen
    sequence.swapped = Swapped(key, seen)
    sequence.tables = [[] for _ in sequence.tables]
    sequence.entry, sequence.num_published = None, 0
    return True


def swap_in(sequence: CachedSequence, swapped: Swapped, supply: BlockSupply, tiers: Tiers) -> bool:
    """Bring content back; if it is lost, the sequence holds nothing. False: no room; nothing was changed."""
    tables = supply.take_like(swapped.tables)
    if tables is None:
        return False
    sequence.swapped = None
    pieces = supply.pieces(tables, sequence.length)
    if tiers.take(swapped.key, pieces):
        sequence.tables = tables
        for piece in pieces:
            supply.pools[piece.group].filled[piece.block] = piece.num_tokens
    else:
        supply.release(tables)
        sequence.length = sequence.first_seen = 0
    return True
