"""Blocks of the layers of one group, and what is known of each block's content.

    memory  [ block 0                          | block 1 ... ]      block_bytes each
    block   [ layer 0 | layer 1 | ...          ]                    laid out by `graph.cpu.key_value_pages`

All layers of a block lie together, so that memory is touched, and counted, block by block as sequences grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import BlockCopy
from onnxgen.backends.block_content import Bytes, check_written, join_parts, split_parts
from onnxgen.backends.native.contents import BlockContents
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.key_value_pages import KeyValuePages


class CacheArea:
    """Memory of one group of layers.

    Args:
        layers: How keys and values of each layer lie in a block; there may be none.
        num_blocks: How many.

    Attributes:
        contents: What is known of the blocks, once there are any.
        block_bytes: Bytes from block to block.
        num_bytes: Size of the memory.
    """

    contents: BlockContents

    def __init__(self, layers: Sequence[KeyValuePages], *, num_blocks: int) -> None:
        self._layers, self._num_blocks = layers, num_blocks
        self._starts = np.cumsum([0, *(pages.block_bytes for pages in layers)]).tolist()
        self.block_bytes: int = self._starts[-1]
        self.num_bytes = num_blocks * self.block_bytes
        self._blocks = np.zeros((0, 0), np.uint8)

    def allocate(self, *, block_size: int, switch_length: int | None) -> list[int]:
        """Get the memory; returns where each layer of the first block begins.

        Args:
            block_size: Positions of a block as steps count them.
            switch_length: Longer sequences use other rotary tables; None: there are no others.
        """
        memory = aligned(self.num_bytes)
        self.contents = BlockContents(self._num_blocks, block_size, switch_length=switch_length)
        self._blocks = memory.reshape(-1, self.block_bytes) if self.block_bytes else memory
        return [memory.ctypes.data + start for start in self._starts[:-1]]

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Copy the beginnings of blocks to other blocks, in order."""
        for c in copies:
            if c.source == c.target or not c.num_tokens:
                continue
            if self.block_bytes:
                self._copy(c)
            self.contents.copied([c])

    def export_block(self, block: int, num_tokens: int) -> Bytes:
        """A block that was checked as bytes; what lies behind its first positions goes with them and means nothing.

        Raises:
            StepError: Fewer were written.
        """
        check_written(block, num_tokens, written=self.contents.written(block))
        parts = [self._blocks[block]] if self.block_bytes else []
        return join_parts(parts, num_tokens=num_tokens, long=self.contents.has_long(block))

    def import_block(self, block: int, content: Bytes, num_tokens: int) -> None:
        """Fill a block that was checked with what `export_block` gave.

        Raises:
            StepError: It has another size.
        """
        parts = [self._blocks[block]] if self.block_bytes else []
        long = split_parts(content, parts, num_tokens=num_tokens)
        self.contents.filled(block, num_tokens, long=long)

    def _copy(self, c: BlockCopy) -> None:
        source, target = self._blocks[c.source], self._blocks[c.target]
        if c.num_tokens >= self.contents.written(c.target):
            target[:] = source
            return
        for start, pages in zip(self._starts, self._layers, strict=False):
            own = slice(start, start + pages.block_bytes)
            pages.copy_tokens(source[own], target[own], c.num_tokens)

    def close(self) -> None:
        """Release the memory."""
        self._blocks = np.zeros((0, 0), np.uint8)
        self.num_bytes = 0
