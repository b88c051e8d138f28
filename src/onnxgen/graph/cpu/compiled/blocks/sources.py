"""Where the tiles of a product read a group of weights: from the packed panel, or from what was unpacked of it.

Unpacked, the groups of a panel lie one after the other in a thread's scratch memory, ready for the instructions:

    group    | scales of 4 tiles, float32 | zeros of 4 tiles | step 0 of 4 tiles | step 1 of 4 tiles | ...
    step     one vector of bytes a tile, or two of words
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.compiled.blocks.format import LANES, PANEL_TILES, VECTOR_BYTES, BlockFormat
from onnxgen.graph.cpu.isa import Isa

_SUM_SHIFT = 7
"""A sum of int16 is split in two words, so that a product with zero points takes one instruction."""


@dataclass(frozen=True, slots=True)
class Prefetching:
    """How packed weights are asked for before they are needed.

    Attributes:
        distance: Bytes ahead in a panel that is read once.
        level: The cache that they are brought to.
        lines: Every so many lines: the processor fetches some neighbours by itself.
        next_panel: Where several tiles of rows pass over a panel, each asks for its share of the next one.
    """

    distance: int
    level: int
    lines: int
    next_panel: bool


@cache
def prefetching() -> Prefetching:
    """What is best on this processor, for weights in main memory.

    Asking for each line, into the first level, is worth a third of the bandwidth on Intel's Ice Lake. On AMD's Zen 4 it
    halves it (14 GB/s a core, 27 without): the misses that a first-level cache keeps track of are few. Asking for the next
    panel makes 8 rows of a matrix in main memory 1.4 times as fast there.
    """
    if detect_cpu().vendor == "AuthenticAMD":
        return Prefetching(distance=4096, level=2, lines=2, next_panel=True)
    return Prefetching(distance=4096, level=1, lines=1, next_panel=False)


def operands(form: BlockFormat) -> int:
    """Vectors that a step of a tile is multiplied as: bytes at once, words in two halves."""
    return 2 if form.words else 1


def unpacked_head_bytes(form: BlockFormat) -> int:
    """Bytes of an unpacked group before its steps."""
    return VECTOR_BYTES * PANEL_TILES * (1 if form.zeros == "middle" else 2)


def unpacked_group_bytes(form: BlockFormat) -> int:
    """Bytes of an unpacked group."""
    return unpacked_head_bytes(form) + VECTOR_BYTES * PANEL_TILES * form.steps * operands(form)


@dataclass(frozen=True)
class PackedGroup:
    """A group in a packed panel, as instructions that read it.

    Attributes:
        b: A builder.
        isa: The instruction set.
        form: The panel's format.
        scales: Address of the scales of the first tile that is read.
        zeros: Address of its zeros.
        body: Address of its vectors.
        ahead: Bytes from what is read to what is asked for.
    """

    b: Any
    isa: Isa
    form: BlockFormat
    scales: Any
    zeros: Any
    body: Any
    ahead: Any

    @classmethod
    def at(
        cls, b: Any, isa: Isa, form: BlockFormat, panel: Any, group: Any, first_tile: Any, ahead: Any
    ) -> PackedGroup:
        """The group of that number, seen from a tile on (i64 both, as is ``ahead``)."""
        per_block = v.I64(form.groups_per_block)
        block, within = b.udiv(group, per_block), b.urem(group, per_block)
        head = b.add(panel, b.mul(block, v.I64(form.block_bytes)))
        scales = b.add(head, b.mul(first_tile, v.I64(form.scale_bytes)))
        zeros = b.add(
            b.add(head, v.I64(PANEL_TILES * form.scale_bytes)), b.mul(first_tile, v.I64(form.zero_bytes))
        )
        groups = b.add(b.add(head, v.I64(form.head_bytes)), b.mul(within, v.I64(form.group_bytes)))
        body = b.add(groups, b.mul(first_tile, v.I64(form.tile_bytes)))
        return cls(b, isa, form, scales, zeros, body, ahead)

    def scale(self, tile: int) -> Any:
        """FLOATS."""
        return self._floats(self.scales, tile * self.form.scale_bytes)

    def zero(self, tile: int) -> Any:
        """What the sums begin or end with: INTS of whole zeros, FLOATS of offsets; None for zeros in the middle."""
        form, b = self.form, self.b
        if form.zeros == "middle":
            return None
        place = tile * form.zero_bytes
        if form.zeros == "offsets":
            return self._floats(self.zeros, place)
        narrow = v.load(b, b.add(self.zeros, v.I64(place)), v.ir.VectorType(v.I8, LANES))
        zero = b.zext(narrow, v.INTS)
        return b.or_(zero, b.shl(zero, v.every(v.INTS, 16 + _SUM_SHIFT))) if form.words else zero

    def raw(self, tile: int, vector: int) -> Any:
        """INTS of packed fields; what lies further ahead is asked for."""
        index, how = tile * self.form.vectors + vector, prefetching()
        place = self.b.add(self.body, v.I64(index * VECTOR_BYTES))
        if index % how.lines == 0:
            v.prefetch(self.b, self.b.add(place, self.ahead), how.level)
        return v.load(self.b, place, v.INTS)

    def field(self, raw: Any, field: int, part: int) -> Any:
        """BYTES, or WORDS of half the step, of a field of all bytes of a vector."""
        b, form = self.b, self.form
        shift = field * form.bits + 8 * part
        mask = form.largest * (0x00010001 if form.words else 0x01010101)
        if mask >= 1 << 31:
            mask -= 1 << 32
        shifted = b.lshr(raw, v.every(v.INTS, shift)) if shift else raw
        wanted = shifted if form.bits == 8 and not form.words else b.and_(shifted, v.every(v.INTS, mask))
        return b.bitcast(wanted, v.WORDS if form.words else v.BYTES)

    def _floats(self, base: Any, place: int) -> Any:
        address = self.b.add(base, v.I64(place))
        if self.form.exact:
            return v.load(self.b, address, v.FLOATS)
        return v.from_half(self.b, self.isa, v.load(self.b, address, v.HALVES))


@dataclass(frozen=True)
class UnpackedGroup:
    """A group in scratch memory, as instructions that read or write it.

    Attributes:
        b: A builder.
        form: The panel's format.
        base: Address of the group, or of that of a later tile in it.
    """

    b: Any
    form: BlockFormat
    base: Any

    @classmethod
    def at(cls, b: Any, form: BlockFormat, groups: Any, group: Any, first_tile: Any) -> UnpackedGroup:
        """The group of that number, seen from a tile on (i64 both)."""
        base = b.add(groups, b.mul(group, v.I64(unpacked_group_bytes(form))))
        return cls(b, form, b.add(base, b.mul(first_tile, v.I64(VECTOR_BYTES))))

    def scale_place(self, tile: int) -> Any:
        """Address of FLOATS."""
        return self._place(tile)

    def zero_place(self, tile: int) -> Any:
        """Address of INTS or FLOATS."""
        return self._place(PANEL_TILES + tile)

    def operand_place(self, tile: int, step: int, part: int) -> Any:
        """Address of BYTES or WORDS."""
        first = unpacked_head_bytes(self.form) // VECTOR_BYTES
        return self._place(first + (step * operands(self.form) + part) * PANEL_TILES + tile)

    def scale(self, tile: int) -> Any:
        """FLOATS."""
        return v.load(self.b, self.scale_place(tile), v.FLOATS)

    def zero(self, tile: int) -> Any:
        """As `PackedGroup.zero`."""
        if self.form.zeros == "middle":
            return None
        kind = v.INTS if self.form.zeros == "bytes" else v.FLOATS
        return v.load(self.b, self.zero_place(tile), kind)

    def operand(self, tile: int, step: int, part: int) -> Any:
        """BYTES or WORDS."""
        kind = v.WORDS if self.form.words else v.BYTES
        return v.load(self.b, self.operand_place(tile, step, part), kind)

    def _place(self, vector: int) -> Any:
        return self.b.add(self.base, v.I64(vector * VECTOR_BYTES))


def start(b: Any, isa: Isa, form: BlockFormat, total: Any, zero: Any) -> Any:
    """INTS: what the products of a group are added to, minus the zero points times the sum of the activations.

    Args:
        b: A builder.
        isa: The instruction set.
        form: The panel's format.
        total: The sum of the activations of the group, an i32.
        zero: Of the group.
    """
    if form.zeros != "bytes":
        return v.splat(b, b.mul(total, v.I32(-form.middle)), v.INTS)
    negative = b.neg(total)
    if form.words:
        low = b.and_(negative, v.I32((1 << _SUM_SHIFT) - 1))
        high = b.shl(b.ashr(negative, v.I32(_SUM_SHIFT)), v.I32(16))
        negative = b.or_(low, high)
    words = b.bitcast(v.splat(b, negative, v.INTS), v.WORDS)
    return v.dot_words(b, isa, v.every(v.INTS, 0), b.bitcast(zero, v.WORDS), words)
