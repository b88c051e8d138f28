"""`pin`, `cut`, `own_tail`: the blocks of a sequence held once more, or fewer of them, as far as the backend allows."""

from __future__ import annotations

from onnxgen.kvcache.sequence import CachedSequence
from onnxgen.kvcache.supply import BlockSupply


def pin(sequence: CachedSequence, supply: BlockSupply) -> CachedSequence:
    """The same content once more: nothing of what is swapped out, and whole blocks only where none can be copied."""
    if sequence.swapped is not None:
        return CachedSequence(len(supply.pools), extra=sequence.extra)
    other = sequence.same_tables()
    supply.share(other.tables)
    rest = other.length % supply.shape.block_size
    if rest and not supply.shape.can_copy:
        cut(other, supply, other.length - rest)
    return other


def cut(sequence: CachedSequence, supply: BlockSupply, length: int) -> None:
    """Shorten a sequence to ``length`` tokens, or to what it can go on from below that."""
    size = supply.shape.block_size
    length = _seen_from(sequence, supply, length)
    if length % size and not supply.shape.can_copy and not _own_block(sequence, supply, length // size):
        length = _seen_from(sequence, supply, length - length % size)
    kept = -(-length // size)
    supply.release([table[kept:] for table in sequence.tables])
    for table in sequence.tables:
        del table[kept:]
    sequence.length = length
    sequence.first_seen = min(sequence.first_seen, kept)
    if sequence.entry is not None and not sequence.entry.resident:
        sequence.entry, sequence.num_published = None, 0
    while sequence.entry is not None and sequence.num_published > length // size:
        sequence.num_published -= 1
        sequence.entry = sequence.entry.parent if sequence.num_published else None


def own_tail(sequence: CachedSequence, supply: BlockSupply) -> None:
    """Take a partial last block from the prefix index, which is its only other holder."""
    size = supply.shape.block_size
    if sequence.length % size:
        owned = _own_block(sequence, supply, sequence.length // size)
        assert owned, "a part of a block was reused that somebody else holds and nobody can copy"


def _seen_from(sequence: CachedSequence, supply: BlockSupply, length: int) -> int:
    """``length``, or 0 if blocks were given back that windowed layers see from there."""
    return 0 if supply.shape.first_seen(length) < sequence.first_seen else length


def _own_block(sequence: CachedSequence, supply: BlockSupply, number: int) -> bool:
    return all(supply.take_over(group, table[number]) for group, table in enumerate(sequence.tables))
