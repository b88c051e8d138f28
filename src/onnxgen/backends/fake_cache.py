"""`FakeCache`: the cache of the scripted model, which holds token ids where others hold keys and values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import FULL, BlockCopy, CacheGeometry, Int64Array
from onnxgen.backends.block_content import check_block, check_written, join_parts, split_parts
from onnxgen.errors import StateError

NEVER_WRITTEN = -1
"""Stands in a block where no token was written."""


class FakeCache:
    """Blocks of token ids, of both groups.

    Args:
        geometry: How many.
        whole: A block's content is a state, which is there after all that was written only.
        owner: The backend that made it.

    Attributes:
        tokens: int64 ``[blocks, block_size]``; None once closed.
        window_tokens: Likewise of the group of windows.
        owner: The backend that made it.
    """

    def __init__(self, geometry: CacheGeometry, *, whole: bool, owner: object) -> None:
        self._geometry, self._whole = geometry, whole
        self.owner = owner
        self.tokens: Int64Array | None = np.full(
            (geometry.num_blocks, geometry.block_size), NEVER_WRITTEN, np.int64
        )
        self.window_tokens: Int64Array = np.full(
            (geometry.window_blocks, geometry.block_size), NEVER_WRITTEN, np.int64
        )

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the blocks."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        return 0 if self.tokens is None else self.tokens.nbytes + self.window_tokens.nbytes

    def export_block(self, block: int, num_tokens: int, *, group: int = FULL) -> npt.NDArray[np.uint8]:
        """The first positions of a block as bytes. See `KVCache`."""
        tokens = self._group(group)
        check_block(self._geometry, block, num_tokens, group=group)
        self._check_readable(tokens, block, num_tokens)
        return join_parts([tokens[block, :num_tokens]], num_tokens=num_tokens)

    def import_block(
        self, block: int, content: npt.NDArray[np.uint8], num_tokens: int, *, group: int = FULL
    ) -> None:
        """Fill the first positions of a block. See `KVCache`."""
        tokens = self._group(group)
        check_block(self._geometry, block, num_tokens, group=group)
        split_parts(content, [tokens[block, :num_tokens]], num_tokens=num_tokens)
        tokens[block, num_tokens:] = NEVER_WRITTEN

    def _group(self, group: int) -> Int64Array:
        if self.tokens is None:
            raise StateError("this cache was closed; make a new one")
        return self.tokens if group == FULL else self.window_tokens

    def copy(self, c: BlockCopy, tokens: Int64Array) -> None:
        """Copy the beginning of a block to another, in the group's tokens or in a copy of them.

        Raises:
            StepError: It is a part of what is only there whole.
        """
        if self._whole:
            self._check_readable(tokens, c.source, c.num_tokens)
            tokens[c.target, c.num_tokens :] = NEVER_WRITTEN
        tokens[c.target, : c.num_tokens] = tokens[c.source, : c.num_tokens]

    def _check_readable(self, tokens: Int64Array, block: int, num_tokens: int) -> None:
        written = int((tokens[block] != NEVER_WRITTEN).sum())
        check_written(block, num_tokens, written=written, whole=self._whole)

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self.tokens = None
