"""What LLVM leaves open in machine code, filled in once it is known where everything lies.

Names of relocations are those of the processors' ABI documents, without the prefix: S is the symbol's address, A the
addend, P the place's own address, G the address of a word that holds S.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from onnxgen.errors import MachineCodeError
from onnxgen.graph.cpu.step.elf_object import Machine

Write = Callable[[bytearray, int, int, int], None]
"""``write(image, offset, target, place)``: ``target`` is S + A or G + A, ``place`` is P."""


class Wants(Enum):
    """What a relocation takes for the symbol's address.

    Attributes:
        ADDRESS: The symbol itself.
        CALL: The symbol, or code near by that jumps there.
        WORD: A word near by that holds the symbol's address.
    """

    ADDRESS = "address"
    CALL = "call"
    WORD = "word"


class Rule(NamedTuple):
    """How one kind of relocation is written.

    Attributes:
        wants: What stands for S.
        size: Bytes that it changes.
        write: Changes them.
    """

    wants: Wants
    size: int
    write: Write


def _put(image: bytearray, offset: int, value: int, size: int, *, signed: bool) -> None:
    try:
        image[offset : offset + size] = value.to_bytes(size, "little", signed=signed)
    except OverflowError as cause:
        raise MachineCodeError(
            f"a relocation of {size} bytes cannot hold {value:#x}; it is damaged"
        ) from cause


def _absolute(image: bytearray, offset: int, target: int, place: int) -> None:
    del place
    _put(image, offset, target % (1 << 64), 8, signed=False)


def _relative(size: int) -> Write:
    def write(image: bytearray, offset: int, target: int, place: int) -> None:
        _put(image, offset, target - place, size, signed=True)

    return write


def _instruction(
    value_of: Callable[[int, int], int], *, lowest: int, bits: int, unit: int, signed: bool
) -> Write:
    """Bits of an Arm instruction that hold a number of units."""

    def write(image: bytearray, offset: int, target: int, place: int) -> None:
        value = value_of(target, place)
        count, rest = divmod(value, unit)
        least = -(1 << (bits - 1)) if signed else 0
        if rest or not least <= count < least + (1 << bits):
            raise MachineCodeError(
                f"an instruction cannot hold {value:#x} in {bits} bits of {unit}; it is damaged"
            )
        mask = ((1 << bits) - 1) << lowest
        word = int.from_bytes(image[offset : offset + 4], "little")
        word = (word & ~mask) | (count << lowest & mask)
        image[offset : offset + 4] = word.to_bytes(4, "little")

    return write


def _distance(target: int, place: int) -> int:
    return target - place


def _low(target: int, place: int) -> int:
    del place
    return target & 0xFFF


def _low_part(unit: int) -> Rule:
    """The low 12 bits of an address, in units of what is loaded."""
    return Rule(Wants.ADDRESS, 4, _instruction(_low, lowest=10, bits=12, unit=unit, signed=False))


def _sixteen_bits(lowest: int) -> Rule:
    """16 bits of an address from one on, of the four instructions that make up a whole one."""

    def value(target: int, place: int) -> int:
        del place
        return target >> lowest & 0xFFFF

    return Rule(Wants.ADDRESS, 4, _instruction(value, lowest=5, bits=16, unit=1, signed=False))


def _pages(image: bytearray, offset: int, target: int, place: int) -> None:
    """The distance in pages of ``adrp``: two low bits and nineteen high ones, apart from each other."""
    pages = (target >> 12) - (place >> 12)
    if not -(1 << 20) <= pages < 1 << 20:
        raise MachineCodeError(f"an instruction cannot reach {pages} pages; it is damaged")
    word = int.from_bytes(image[offset : offset + 4], "little") & ~(3 << 29 | 0x7FFFF << 5)
    word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    image[offset : offset + 4] = word.to_bytes(4, "little")


_CALL26 = Rule(Wants.CALL, 4, _instruction(_distance, lowest=0, bits=26, unit=4, signed=True))

RULES: Mapping[Machine, Mapping[int, Rule]] = MappingProxyType(
    {
        Machine.X86_64: {
            1: Rule(Wants.ADDRESS, 8, _absolute),  # 64
            2: Rule(Wants.ADDRESS, 4, _relative(4)),  # PC32
            4: Rule(Wants.CALL, 4, _relative(4)),  # PLT32
            9: Rule(Wants.WORD, 4, _relative(4)),  # GOTPCREL
            24: Rule(Wants.ADDRESS, 8, _relative(8)),  # PC64
            41: Rule(Wants.WORD, 4, _relative(4)),  # GOTPCRELX
            42: Rule(Wants.WORD, 4, _relative(4)),  # REX_GOTPCRELX
        },
        Machine.AARCH64: {
            257: Rule(Wants.ADDRESS, 8, _absolute),  # ABS64
            260: Rule(Wants.ADDRESS, 8, _relative(8)),  # PREL64
            261: Rule(Wants.ADDRESS, 4, _relative(4)),  # PREL32
            264: _sixteen_bits(0),  # MOVW_UABS_G0_NC
            266: _sixteen_bits(16),  # MOVW_UABS_G1_NC
            268: _sixteen_bits(32),  # MOVW_UABS_G2_NC
            269: _sixteen_bits(48),  # MOVW_UABS_G3
            275: Rule(Wants.ADDRESS, 4, _pages),  # ADR_PREL_PG_HI21
            277: _low_part(1),  # ADD_ABS_LO12_NC
            278: _low_part(1),  # LDST8_ABS_LO12_NC
            282: _CALL26,  # JUMP26
            283: _CALL26,
            284: _low_part(2),  # LDST16_ABS_LO12_NC
            285: _low_part(4),  # LDST32_ABS_LO12_NC
            286: _low_part(8),  # LDST64_ABS_LO12_NC
            299: _low_part(16),  # LDST128_ABS_LO12_NC
            311: Rule(Wants.WORD, 4, _pages),  # ADR_GOT_PAGE
            312: Rule(
                Wants.WORD, 4, _instruction(_low, lowest=10, bits=12, unit=8, signed=False)
            ),  # LD64_GOT_LO12_NC
        },
    }
)
"""Kinds of relocations by processor."""

SLOT_BYTES = 32
"""A slot: a word that holds an address, and code after it that jumps there."""

JUMPS: Mapping[Machine, bytes] = MappingProxyType(
    {
        Machine.X86_64: bytes.fromhex("ff25f2ffffff"),  # jmp *-14(%rip)
        Machine.AARCH64: bytes.fromhex("d0ffff58 00021fd6"),  # ldr x16, .-8; br x16
    }
)
"""The code of a slot, by processor."""
