"""The pool of key and value blocks of one backend, and what is known of each block's content.

    pool    [ block 0                          | block 1 ... ]      block_bytes each
    block   [ layer 0 | layer 1 | ...          ]                    laid out by `graph.cpu.key_value_pages`

All layers of a block lie together, so that memory is touched, and counted, block by block as sequences grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import BlockCopy, CacheGeometry
from onnxgen.backends.native.contents import BlockContents
from onnxgen.backends.native.plan import CacheLayer
from onnxgen.errors import BackendError, StateError
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.key_value_pages import GROUP_TOKENS, KeyValuePages

_MIB = 1 << 20


class NativeCache:
    """Blocks of keys and values.

    Attributes:
        owner: The backend that made it.
        stored_size: Positions that a block has in memory; the geometry may use fewer.
        block_bytes: Bytes from block to block.
        contents: What is known of the blocks.

    Raises:
        BackendError: The memory cannot be had, or is more than the limit.
    """

    def __init__(
        self,
        layers: Sequence[CacheLayer],
        *,
        num_seqs: int,
        num_tokens: int,
        block_size: int,
        switch_length: int | None,
        limit_mb: int | None,
        owner: object,
    ) -> None:
        size = min(block_size, num_tokens)
        self._geometry = CacheGeometry(num_seqs * -(-num_tokens // size), size)
        self.stored_size = -(-size // GROUP_TOKENS) * GROUP_TOKENS
        self.owner = owner
        self._pages = [
            KeyValuePages(layer.kv_heads, layer.head_dim, layer.head_dim, self.stored_size)
            for layer in layers
        ]
        self._starts = np.cumsum([0, *(pages.block_bytes for pages in self._pages)]).tolist()
        self.block_bytes: int = self._starts[-1]
        total = self._geometry.num_blocks * self.block_bytes
        what = f"a cache for {num_seqs} sequences of {num_tokens} tokens takes {total / _MIB:.1f} MiB"
        if limit_mb is not None and total > limit_mb * _MIB:
            raise BackendError(
                f"{what}, the limit is {limit_mb} MiB (memory_limit_mb); ask for fewer sequences, a shorter "
                "context or raise the limit"
            )
        try:
            self._memory: np.ndarray | None = aligned(total)
        except (MemoryError, OSError, ValueError, OverflowError) as cause:
            raise BackendError(f"{what}, more than there is") from cause
        start = self._memory.ctypes.data
        self._layers = [start + at for at in self._starts[:-1]]
        self.contents = BlockContents(self._geometry.num_blocks, size, switch_length=switch_length)

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the blocks."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        return 0 if self._memory is None else self._memory.size

    @property
    def layer_addresses(self) -> list[int]:
        """Where each layer of the first block begins.

        Raises:
            StateError: The cache was closed.
        """
        self._open()
        return self._layers

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Copy the beginnings of blocks to other blocks, in order."""
        memory = self._open().reshape(-1, self.block_bytes) if self.block_bytes else None
        for c in copies:
            if memory is None or c.source == c.target or not c.num_tokens:
                continue
            if c.num_tokens >= self.contents.written(c.target):
                memory[c.target] = memory[c.source]
            else:
                for start, pages in zip(self._starts, self._pages, strict=False):
                    own = slice(start, start + pages.block_bytes)
                    pages.copy_tokens(memory[c.source, own], memory[c.target, own], c.num_tokens)
            self.contents.copied([c])

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._memory = None

    def _open(self) -> np.ndarray:
        if self._memory is None:
            raise StateError("this cache was closed; make a new one")
        return self._memory
