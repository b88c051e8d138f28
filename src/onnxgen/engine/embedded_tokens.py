"""`EmbeddedTokens`: the positions of a sequence whose embeddings were given in place of token ids."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


class EmbeddedTokens:
    """Embeddings by position; positions only grow, and are cut off at the end.

    Args:
        positions: int64 ``[given]``, increasing.
        embeds: float32 ``[given, width]``.
    """

    __slots__ = ("_embeds", "_positions")

    def __init__(self, positions: Int64Array, embeds: Float32Array) -> None:
        assert positions.shape == embeds.shape[:1]
        self._positions, self._embeds = positions, embeds

    def extended(self, start: int, embeds: Float32Array) -> EmbeddedTokens:
        """With further embeddings, from position ``start`` on."""
        more = np.arange(start, start + len(embeds))
        return EmbeddedTokens(np.concatenate([self._positions, more]), np.concatenate([self._embeds, embeds]))

    def truncated(self, length: int) -> EmbeddedTokens | None:
        """Those of the first ``length`` positions; None where there are none."""
        kept = int(np.searchsorted(self._positions, length))
        return EmbeddedTokens(self._positions[:kept], self._embeds[:kept]) if kept else None

    def between(self, start: int, end: int) -> tuple[Int64Array, Float32Array] | None:
        """Those of positions ``start`` to ``end``, counted from ``start``; None where there are none."""
        first, last = np.searchsorted(self._positions, (start, end)).tolist()
        if first == last:
            return None
        return self._positions[first:last] - start, self._embeds[first:last]

    def digest(self) -> str:
        """Equal for equal embeddings at equal positions."""
        content = hashlib.sha256(self._positions.tobytes())
        content.update(self._embeds.tobytes())
        return content.hexdigest()

    def has(self, position: int) -> bool:
        """Whether the embedding of a position was given."""
        return self.between(position, position + 1) is not None

    def marked(self, ids: Int64Array) -> Int64Array:
        """A sequence's ids, int64 ``[tokens]``, with a negative digest where an embedding stands: equal for equal ones."""
        marked = ids.copy()
        for position, row in zip(self._positions.tolist(), self._embeds, strict=True):
            if position < len(ids):
                marked[position] = -1 - zlib.crc32(row.tobytes())
        return marked


def extended(known: EmbeddedTokens | None, start: int, embeds: Float32Array) -> EmbeddedTokens:
    """``known`` with further embeddings, from position ``start`` on."""
    if known is None:
        return EmbeddedTokens(np.arange(start, start + len(embeds)), embeds)
    return known.extended(start, embeds)
