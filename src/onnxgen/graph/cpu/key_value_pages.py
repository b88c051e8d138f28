"""How keys and values lie in blocks of a paged cache.

A block holds ``block_size`` tokens of one layer, as tiles of 16 tokens. What one head needs lies together, so attention reads
a block of a head as one stream::

    block   [ head 0                                   | head 1 ... ]       block_bytes
    head    [ tile 0: tokens 0-15 | tile 1: 16-31 | ...             ]       head_bytes
    tile    [ key scale    | value log scale | value inverse scale  ]       3 x float32 [16 tokens]
            [ keys         int16 [head_dim / 2][16 tokens][2 dimensions]   ]
            [ values       int16 [8 pairs][value_dim][2 tokens]            ]       tile_bytes

Keys are numbers times a scale of their token: ``key = key scale * whole``. A line of 64 bytes has two dimensions of all 16
tokens, so a product with a query leaves one score in each lane. Values are kept likewise, ``value = 2 ** log scale * whole``,
but a line has two tokens of 16 dimensions, so that the weighted sum leaves one dimension in each lane. Their scale is kept as its
logarithm and its inverse because that is what attention multiplies weights with (`onnxgen.graph.cpu.compiled.paged.weights`).

Everything begins on a cache line if the pool does. A block is copied by copying ``block_bytes`` bytes; a copy of its first
tokens may copy all of it, because nothing is read beyond a sequence's end.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.compiled.paged.layout import TILE_TOKENS, tile_bytes

_HEAD_DIMS = range(32, 257, 16)


@dataclass(frozen=True, slots=True)
class KeyValuePages:
    """Sizes and places in a block of one layer.

    Attributes:
        kv_heads: Heads of keys and values.
        head_dim: Dimensions of a key: a multiple of 16 from 32 to 256.
        value_dim: Of a value, likewise.
        block_size: Tokens of a block, a multiple of 16.

    Raises:
        OptionError: a size that this layout has no place for.
    """

    kv_heads: int
    head_dim: int
    value_dim: int
    block_size: int

    def __post_init__(self) -> None:
        for name, size in (("head_dim", self.head_dim), ("value_dim", self.value_dim)):
            if size not in _HEAD_DIMS:
                raise OptionError(
                    f"paged attention was asked for {name} {size}; it has multiples of 16 from 32 to 256"
                )
        if self.block_size <= 0 or self.block_size % TILE_TOKENS:
            raise OptionError(
                f"asked for blocks of {self.block_size} tokens; a block has a multiple of {TILE_TOKENS}"
            )
        if self.kv_heads < 1:
            raise OptionError(f"asked for {self.kv_heads} heads of keys and values; there is at least 1")

    @property
    def tile_bytes(self) -> int:
        """A tile of one head."""
        return tile_bytes(self.head_dim, self.value_dim)

    @property
    def head_bytes(self) -> int:
        """One head of a block."""
        return self.block_size // TILE_TOKENS * self.tile_bytes

    @property
    def block_bytes(self) -> int:
        """One block of one layer."""
        return self.kv_heads * self.head_bytes

    @property
    def bytes_per_token(self) -> float:
        """Memory of a token in one layer."""
        return self.block_bytes / self.block_size
