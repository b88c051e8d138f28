"""The pool of key and value blocks of one backend, and what is known of each block's content.

    pool    [ block 0                          | block 1 ... ]      block_bytes each
    block   [ layer 0 | layer 1 | ...          ]                    laid out by `graph.cpu.key_value_pages`

All layers of a block lie together, so that memory is touched, and counted, block by block as sequences grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import NO_BLOCK, BlockCopy, CacheGeometry, Step
from onnxgen.backends.native.plan import CacheLayer
from onnxgen.errors import BackendError, StateError, StepError
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.key_value_pages import GROUP_TOKENS, KeyValuePages

_MIB = 1 << 20


class NativeCache:
    """Blocks of keys and values.

    Attributes:
        owner: The backend that made it.
        stored_size: Positions that a block has in memory; the geometry may use fewer.
        block_bytes: Bytes from block to block.

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
        self._written = [0] * self._geometry.num_blocks
        self._long = [False] * self._geometry.num_blocks

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
        start = self._open().ctypes.data
        return [start + at for at in self._starts[:-1]]

    def check_continues(self, step: Step, *, switch_length: int | None) -> None:
        """Refuse a step that reads positions which nobody wrote, or that other rotary tables made.

        Raises:
            StepError: Naming the sequence.
            StateError: The cache was closed.
        """
        self._open()
        written, long = self._after(step.copies)
        size, ends = self._geometry.block_size, step.cu_seqlens.tolist()
        for i, context_len in enumerate(step.context_lens.tolist()):
            if not context_len:
                continue
            blocks: list[int] = step.block_table[i, : -(-context_len // size)].tolist()
            total = context_len + ends[i + 1] - ends[i]
            is_long = switch_length is not None and total > switch_length
            for number, block in enumerate(blocks):
                needed = min(size, context_len - number * size)
                if written[block] < needed:
                    raise StepError(
                        f"sequence {i} has context_len {context_len}, but only {written[block]} positions of its "
                        f"block {block} were written, {needed} are needed"
                    )
                if switch_length is not None and long[block] != is_long:
                    raise StepError(
                        f"sequence {i} goes to {total} tokens, on the other side of {switch_length}, where this "
                        "model's rotary tables change; it must start again from its first token"
                    )

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Copy the beginnings of blocks to other blocks, in order."""
        memory = self._open().reshape(-1, self.block_bytes) if self.block_bytes else None
        for c in copies:
            if memory is None or c.source == c.target or not c.num_tokens:
                continue
            if c.num_tokens >= self._written[c.target]:
                memory[c.target] = memory[c.source]
            else:
                for start, pages in zip(self._starts, self._pages, strict=False):
                    own = slice(start, start + pages.block_bytes)
                    pages.copy_tokens(memory[c.source, own], memory[c.target, own], c.num_tokens)
            self._written, self._long = self._after([c])

    def begin(self, step: Step) -> None:
        """Forget what the step is about to write: should it fail, those positions hold nothing."""
        self._note(step, [0] * step.num_seqs, long=None)

    def end(self, step: Step, *, switch_length: int | None) -> None:
        """Note what the step has written."""
        lengths = np.diff(step.cu_seqlens).tolist()
        self._note(step, lengths, long=switch_length)

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._memory = None

    def _note(self, step: Step, lengths: Sequence[int], *, long: int | None) -> None:
        size = self._geometry.block_size
        ends = step.cu_seqlens.tolist()
        for i, (context_len, length) in enumerate(zip(step.context_lens.tolist(), lengths, strict=True)):
            total = context_len + ends[i + 1] - ends[i]
            first, behind = context_len // size, -(-total // size)
            for number, block in enumerate(step.block_table[i, first:behind].tolist(), first):
                assert block != NO_BLOCK
                self._written[block] = max(0, min(size, context_len + length - number * size))
                if length:
                    self._long[block] = long is not None and total > long

    def _after(self, copies: Sequence[BlockCopy]) -> tuple[list[int], list[bool]]:
        """What blocks hold once copies have been done in order."""
        if not copies:
            return self._written, self._long
        written, long = list(self._written), list(self._long)
        for c in copies:
            if c.source != c.target and c.num_tokens:
                copied = min(c.num_tokens, written[c.source])
                partial = c.num_tokens < written[c.target] and copied == c.num_tokens
                written[c.target] = written[c.target] if partial else copied
                long[c.target] = long[c.source]
        return written, long

    def _open(self) -> np.ndarray:
        if self._memory is None:
            raise StateError("this cache was closed; make a new one")
        return self._memory
