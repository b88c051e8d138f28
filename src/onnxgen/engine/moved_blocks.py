"""Taking over what one cache holds of a sequence into another, larger one of the same backend."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.backends.base import KVCache


def move_blocks(
    source: KVCache,
    target: KVCache,
    *,
    paged: bool,
    blocks: Sequence[int],
    to: Sequence[int],
    num_tokens: int,
) -> bool:
    """Copy the first positions of a sequence.

    Args:
        source: Holds them.
        target: Gets them.
        paged: Whether a sequence may have several blocks; contents then fit blocks of one size only.
        blocks: Of ``source``, in order.
        to: Of ``target``, in order.
        num_tokens: How many positions. Without ``rewind``, as many as the source holds.

    Returns:
        Whether it was done; False where contents do not fit.
    """
    size = source.geometry.block_size
    if paged and size != target.geometry.block_size:
        return False
    for n, first in enumerate(range(0, num_tokens, size)):
        count = min(size, num_tokens - first)
        target.import_block(to[n], source.export_block(blocks[n], count), count)
    return True
