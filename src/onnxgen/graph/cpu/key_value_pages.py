"""How keys and values lie in blocks of a paged cache.

A block holds ``block_size`` tokens of one layer, as tiles of 64 tokens, of 32 or 16 where the block size is no multiple of these.
What one head needs lies together, in the order in which attention reads it::

    block   [ head 0                                        | head 1 ... ]       block_bytes
    head    [ tile 0: tokens 0-63 | tile 1: 64-127 | ...                 ]       head_bytes
    tile    [ keys' scales | values' log scales | values' inverse scales ]       3 x float32 [tile tokens]
            [ keys         int16 [head_dim / 2][tile tokens][2 dimensions]   ]
            [ values       int16 [tile tokens / 2][value_dim][2 tokens]      ]   tile_bytes    or int8, likewise

Keys are integers times a scale of their token: ``key = scale * whole``. A line of 32 numbers has two dimensions of 16 tokens, so a
product with a query leaves one score in each lane. Values are kept likewise, ``value = 2 ** log scale * whole``, but a line has two
tokens of 16 dimensions, so that the weighted sum leaves one dimension in each lane. Their scale is kept as its logarithm and its
inverse because that is what attention multiplies weights with (`onnxgen.graph.cpu.compiled.paged.weights`).

Everything begins on a cache line if the pool does. A tile of 64 tokens is read from its first byte to its last, tiles of 16 are
read four at a time: from main memory blocks of 64 are up to 1.3 times as fast as blocks of 32, blocks of 256 up to 1.9 times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.compiled.paged.layout import GROUP_TOKENS, SCALES, tile_tokens, token_bytes

_HEAD_DIMS = range(32, 257, 16)


@dataclass(frozen=True, slots=True)
class KeyValuePages:
    """Sizes and places in a block of one layer.

    Attributes:
        kv_heads: Heads of keys and values.
        head_dim: Dimensions of a key: a multiple of 16 from 32 to 256.
        value_dim: Of a value, likewise.
        block_size: Tokens of a block, a multiple of 16.
        bits: Of each number, 16 or 8.

    Raises:
        OptionError: a size that this layout has no place for.
    """

    kv_heads: int
    head_dim: int
    value_dim: int
    block_size: int
    bits: int = 16

    def __post_init__(self) -> None:
        for name, size in (("head_dim", self.head_dim), ("value_dim", self.value_dim)):
            if size not in _HEAD_DIMS:
                raise OptionError(
                    f"paged attention was asked for {name} {size}; it has multiples of 16 from 32 to 256"
                )
        if self.block_size <= 0 or self.block_size % GROUP_TOKENS:
            raise OptionError(
                f"asked for blocks of {self.block_size} tokens; a block has a multiple of {GROUP_TOKENS}"
            )
        if self.bits not in (8, 16):
            raise OptionError(f"asked for keys and values of {self.bits} bits; they have 16 or 8")
        if self.kv_heads < 1:
            raise OptionError(f"asked for {self.kv_heads} heads of keys and values; there is at least 1")

    @property
    def tile_tokens(self) -> int:
        """Tokens of a tile."""
        return tile_tokens(self.block_size)

    @property
    def tile_bytes(self) -> int:
        """A tile of one head."""
        return self.tile_tokens * token_bytes(self.head_dim, self.value_dim, self.bits)

    @property
    def head_bytes(self) -> int:
        """One head of a block."""
        return self.block_size * token_bytes(self.head_dim, self.value_dim, self.bits)

    @property
    def block_bytes(self) -> int:
        """One block of one layer."""
        return self.kv_heads * self.head_bytes

    @property
    def bytes_per_token(self) -> int:
        """Memory of a token in one layer."""
        return self.block_bytes // self.block_size

    def copy_tokens(self, source: np.ndarray, target: np.ndarray, num_tokens: int) -> None:
        """Copy the first tokens of a block to another, and leave the others of that.

        Args:
            source: uint8 ``[block_bytes]``.
            target: Likewise, written.
            num_tokens: How many, from 0 to ``block_size``.
        """
        tiles = self.block_size // self.tile_tokens
        pairs = zip(source.reshape(-1, self.tile_bytes), target.reshape(-1, self.tile_bytes), strict=True)
        for index, (old, new) in enumerate(pairs):
            count = max(0, min(self.tile_tokens, num_tokens - index % tiles * self.tile_tokens))
            for before, after in zip(self._parts(old), self._parts(new), strict=True):
                whole, half = count // after.shape[1], count % after.shape[1]
                after[:whole] = before[:whole]
                after[whole : whole + 1, :half] = before[whole : whole + 1, :half]

    def _parts(self, tile: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scales, keys and values of a tile: views ``[tokens / n, n, ...]``, where ``n`` tokens lie interleaved."""
        tokens, numbers = self.tile_tokens, np.dtype(np.int16 if self.bits == 16 else np.int8)
        ends = np.cumsum([4 * SCALES * tokens, numbers.itemsize * self.head_dim * tokens])
        scales, keys, values = np.split(tile, ends)
        return (
            scales.view(np.float32).reshape(SCALES, tokens, 1).transpose(1, 2, 0),
            keys.view(numbers).reshape(-1, tokens, 1, 2).transpose(1, 2, 0, 3),
            values.view(numbers).reshape(-1, self.value_dim, 2).transpose(0, 2, 1),
        )
