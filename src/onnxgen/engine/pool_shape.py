"""What block accounting must know of a backend's cache."""

from __future__ import annotations

from onnxgen.backends.base import CacheGeometry, Capabilities
from onnxgen.kvcache.base import PoolShape


def shape_of(geometry: CacheGeometry, capabilities: Capabilities, *, snapshot_tokens: int) -> PoolShape:
    """The pool that a cache is.

    Args:
        geometry: Of the cache.
        capabilities: Of the backend that made it.
        snapshot_tokens: Where a backend that cannot rewind is asked for copies of its state.
    """
    windowed = geometry.window_blocks > 0
    return PoolShape(
        num_blocks=geometry.num_blocks,
        block_size=geometry.block_size,
        block_bytes=geometry.block_bytes,
        window=capabilities.window if windowed else None,
        window_blocks=geometry.window_blocks,
        window_block_bytes=geometry.window_block_bytes,
        can_copy=capabilities.copy_blocks,
        exact=not capabilities.rewind,
        paged=capabilities.paged,
        snapshot_tokens=snapshot_tokens if not capabilities.rewind and capabilities.copy_blocks else None,
    )
