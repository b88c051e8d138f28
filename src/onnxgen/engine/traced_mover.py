"""`TracedMover`: writes down which blocks leave the pool, and which come back."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.engine.trace import EngineTrace
from onnxgen.kvcache.tiers import BlockMover, Piece


class TracedMover:
    """A `BlockMover` that tells the trace what another one does.

    Args:
        mover: Moves the bytes.
        trace: Told of what it did.
    """

    def __init__(self, mover: BlockMover, trace: EngineTrace) -> None:
        self._mover = mover
        self._trace = trace

    def save(self, key: int, pieces: Sequence[Piece]) -> int | None:
        """See `BlockMover.save`."""
        num_bytes = self._mover.save(key, pieces)
        if num_bytes is not None:
            self._trace.swap_out(key, pieces)
        return num_bytes

    def to_disk(self, key: int) -> bool:
        """See `BlockMover.to_disk`."""
        return self._mover.to_disk(key)

    def load(self, key: int, pieces: Sequence[Piece]) -> bool:
        """See `BlockMover.load`."""
        loaded = self._mover.load(key, pieces)
        (self._trace.swap_in if loaded else self._trace.swap_lost)(key, pieces)
        return loaded

    def forget(self, key: int) -> None:
        """See `BlockMover.forget`."""
        self._mover.forget(key)
