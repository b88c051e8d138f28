"""How a quantized matrix lies in memory: what its kernels are compiled for.

A matrix of ``columns`` outputs and ``depth`` inputs is cut into panels of 64 columns, four tiles of 16 lanes:

    panel    blocks, one after the other along the depth, so that a panel is read from one end to the other
    block    | scales of 4 tiles | zeros of 4 tiles | group | group | ...     as many groups as the block is deep
    group    | tile 0 | tile 1 | tile 2 | tile 3 |                            32 deep, 16 in blocks of 16
    tile     vectors of 64 bytes, lane by lane: 4 bytes for each of 16 columns

A byte holds 8 / bits fields. Field ``f`` of byte ``i`` of a lane in vector ``v`` is the element at depth
``4 * (f * vectors + v) + i`` of the group: what one instruction multiplies is four neighbours of each column. For activations
of int16 the two middle bytes are swapped, so that bytes 0 and 2, then 1 and 3, are pairs of neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LANES = 16
PANEL_TILES = 4
PANEL_COLUMNS = PANEL_TILES * LANES
VECTOR_BYTES = 64

Zeros = Literal["middle", "bytes", "offsets"]
"""Where the zero of a block is: at half the range; a whole number; anywhere, kept as an offset of the product."""


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """What a packed matrix is made of.

    Attributes:
        bits: 2, 4 or 8.
        block: Elements along the depth that share a scale: 16, 32, 64, 128 or 256.
        zeros: Kind of zero points. An offset is ``scale * (middle - zero)``.
        exact: Scales and offsets are float32, not float16.
        words: It is multiplied by activations of int16, not int8.
    """

    bits: int
    block: int
    zeros: Zeros = "middle"
    exact: bool = False
    words: bool = False

    def __str__(self) -> str:
        extras = [self.zeros] * (self.zeros != "middle") + ["exact"] * self.exact + ["words"] * self.words
        return "-".join([f"{self.bits}x{self.block}", *extras])

    @property
    def group(self) -> int:
        """Elements along the depth that share a scale of the activations."""
        return min(self.block, 32)

    @property
    def groups_per_block(self) -> int:
        """Groups of a block."""
        return self.block // self.group

    @property
    def middle(self) -> int:
        """The zero of symmetric blocks."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> int:
        """The largest element."""
        return (1 << self.bits) - 1

    @property
    def steps(self) -> int:
        """Fours of neighbours in a group."""
        return self.group // 4

    @property
    def fields(self) -> int:
        """Elements in a byte."""
        return 8 // self.bits

    @property
    def vectors(self) -> int:
        """Vectors of a tile in a group."""
        return self.steps // self.fields

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales of a tile."""
        return LANES * (4 if self.exact else 2)

    @property
    def zero_bytes(self) -> int:
        """Bytes of the zeros of a tile."""
        return {"middle": 0, "bytes": LANES, "offsets": self.scale_bytes}[self.zeros]

    @property
    def head_bytes(self) -> int:
        """Bytes of a block before its groups."""
        return PANEL_TILES * (self.scale_bytes + self.zero_bytes)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile in a group."""
        return self.vectors * VECTOR_BYTES

    @property
    def group_bytes(self) -> int:
        """Bytes of a group."""
        return PANEL_TILES * self.tile_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of a panel."""
        return self.head_bytes + self.groups_per_block * self.group_bytes

    def blocks(self, depth: int) -> int:
        """Blocks along a depth."""
        return -(-depth // self.block)

    def groups(self, depth: int) -> int:
        """Groups along a depth that hold anything."""
        return -(-depth // self.group)

    def panel_bytes(self, depth: int) -> int:
        """Bytes of a panel."""
        return self.blocks(depth) * self.block_bytes
