"""The pool of key and value blocks of one backend: an area for all layers, or one more for those that see a window.

window_group=False    area 0   all layers
window_group=True     area 0   layers that see everything        num_tokens of each sequence
                      area 1   layers that see a window          the window and one step's tokens
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from onnxgen.backends.base import FULL, WINDOW, WINDOW_STEP_TOKENS, BlockCopy, CacheGeometry
from onnxgen.backends.block_content import Bytes, check_block
from onnxgen.backends.native.cache_area import CacheArea
from onnxgen.backends.native.contents import Span
from onnxgen.backends.native.plan import CacheLayer
from onnxgen.errors import BackendError, StateError
from onnxgen.graph.cpu.key_value_pages import GROUP_TOKENS, KeyValuePages

_MIB = 1 << 20


class NativeCache:
    """Blocks of keys and values.

    Args:
        layers: Whose keys and values there are.
        windows: Of each layer, how many positions it sees; None, also for none of them, where it has no blocks of
            another group.
        bits: Of each number of keys and values, 16 or 8.
        num_seqs: Sequences.
        num_tokens: Tokens of each.
        block_size: Positions of a block; shorter sequences have shorter ones.
        switch_length: Longer sequences use other rotary tables; None: there are no others.
        limit_mb: The most memory, in MiB; None for no limit.
        owner: The backend that makes it.

    Attributes:
        owner: The backend that made it.
        stored_size: Positions that a block has in memory; the geometry may use fewer.
        areas: By group.

    Raises:
        BackendError: The memory cannot be had, or is more than the limit.
    """

    def __init__(
        self,
        layers: Sequence[CacheLayer],
        *,
        windows: Sequence[int | None] | None = None,
        bits: int = 16,
        num_seqs: int,
        num_tokens: int,
        block_size: int,
        switch_length: int | None,
        limit_mb: int | None,
        owner: object,
    ) -> None:
        size = min(block_size, num_tokens)
        windows = windows or [None] * len(layers)
        self._groups = [FULL if window is None else WINDOW for window in windows]
        counts = [num_seqs * blocks for blocks in _blocks_of_sequence(windows, num_tokens, size)]
        self.stored_size = -(-size // GROUP_TOKENS) * GROUP_TOKENS
        self.owner = owner
        self.areas: list[CacheArea] = []
        for group, count in enumerate(counts):
            own = itertools.compress(layers, (each == group for each in self._groups))
            pages = [
                KeyValuePages(layer.kv_heads, layer.head_dim, layer.head_dim, self.stored_size, bits)
                for layer in own
            ]
            self.areas.append(CacheArea(pages, num_blocks=count))
        self._geometry = CacheGeometry(
            counts[FULL],
            size,
            window_blocks=sum(counts[WINDOW:]),
            block_bytes=self.areas[FULL].block_bytes,
            window_block_bytes=sum(area.block_bytes for area in self.areas[WINDOW:]),
        )
        what = (
            f"a cache for {num_seqs} sequences of {num_tokens} tokens takes {self.num_bytes / _MIB:.1f} MiB"
        )
        if limit_mb is not None and self.num_bytes > limit_mb * _MIB:
            raise BackendError(
                f"{what}, the limit is {limit_mb} MiB (memory_limit_mb); ask for fewer sequences, a shorter "
                "context or raise the limit"
            )
        try:
            starts = [
                iter(area.allocate(block_size=size, switch_length=switch_length)) for area in self.areas
            ]
        except (MemoryError, OSError, ValueError, OverflowError) as cause:
            raise BackendError(f"{what}, more than there is") from cause
        self._layers: tuple[tuple[int, int], ...] | None = tuple(
            (next(starts[group]), self.areas[group].block_bytes) for group in self._groups
        )

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the blocks."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        return sum(area.num_bytes for area in self.areas)

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Where each layer of its first block begins, and bytes from block to block.

        Raises:
            StateError: The cache was closed.
        """
        if self._layers is None:
            raise StateError("this cache was closed; make a new one")
        return self._layers

    def check(self, groups: Sequence[Sequence[Span]], copies: Sequence[BlockCopy]) -> None:
        """Refuse a step that reads what nobody wrote.

        Raises:
            StepError: Naming the sequence.
        """
        for group, (area, spans) in enumerate(zip(self.areas, groups, strict=True)):
            area.contents.check(spans, _of_group(copies, group))

    def begin(self, groups: Sequence[Sequence[Span]], copies: Sequence[BlockCopy]) -> None:
        """Do the copies, and forget what the step is about to write: should it fail, that holds nothing."""
        for group, (area, spans) in enumerate(zip(self.areas, groups, strict=True)):
            area.copy(_of_group(copies, group))
            area.contents.begin(spans)

    def end(self, groups: Sequence[Sequence[Span]]) -> None:
        """Note what a step has written."""
        for area, spans in zip(self.areas, groups, strict=True):
            area.contents.end(spans)

    def export_block(self, block: int, num_tokens: int, *, group: int = FULL) -> Bytes:
        """The first positions of a block as bytes. See `KVCache`."""
        self.layers  # noqa: B018 - a closed cache says so before anything else
        check_block(self._geometry, block, num_tokens, group=group)
        return self.areas[group].export_block(block, num_tokens)

    def import_block(self, block: int, content: Bytes, num_tokens: int, *, group: int = FULL) -> None:
        """Fill the first positions of a block. See `KVCache`."""
        self.layers  # noqa: B018 - a closed cache says so before anything else
        check_block(self._geometry, block, num_tokens, group=group)
        self.areas[group].import_block(block, content, num_tokens)

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._layers = None
        for area in self.areas:
            area.close()


def _blocks_of_sequence(windows: Iterable[int | None], num_tokens: int, size: int) -> list[int]:
    """Of each group, how many blocks a sequence has at most."""
    whole, window = -(-num_tokens // size), max((w for w in windows if w is not None), default=None)
    if window is None:
        return [whole]
    return [whole, min(whole, -(-(window + WINDOW_STEP_TOKENS) // size) + 1)]


def _of_group(copies: Sequence[BlockCopy], group: int) -> Sequence[BlockCopy]:
    return [c for c in copies if c.group == group] if copies else copies
