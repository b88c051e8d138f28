"""Code for Arm cannot run everywhere, but what its instructions point at can be read."""

import struct
from itertools import pairwise

import pytest

from machine_code import CALLS_AND_CONSTANTS, LIBRARY_CALLS, SWITCH, object_file
from onnxgen.errors import MachineCodeError
from onnxgen.graph.cpu.step.elf_object import Machine, read_elf
from onnxgen.graph.cpu.step.linking import Image
from onnxgen.graph.cpu.step.relocations import JUMPS, RULES, SLOT_BYTES

_ARM = "aarch64-unknown-linux-gnu"
_BASE = 0x7F12_3456_7000
_OUTSIDE = {"memset": 0x1111_2222_3330, "memcpy": 0x1111_2222_4440, "memmove": 0x1111_2222_5550}


def _image(text):
    image = Image(read_elf(object_file(text, triple=_ARM)), _OUTSIDE.get)
    return image, image.bound(_BASE)


def _instructions(code, start):
    return [(place, struct.unpack_from("<I", code, place)[0]) for place in range(start, len(code) - 3, 4)]


def _signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def _addresses(code, start):
    """What ``adrp`` with the instruction after it that uses its register points at."""
    words = _instructions(code, start)
    for (place, word), (_, following) in pairwise(words):
        if word & 0x9F00_0000 == 0x9000_0000:
            pages = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            scale = 0 if following & 0x7F80_0000 == 0x1100_0000 else following >> 30
            low = (following >> 10 & 0xFFF) << scale
            yield ((_BASE + place) & ~0xFFF) + (pages << 12) + low


def _calls(code, start, end):
    for place, word in _instructions(code, start):
        if place < end and word & 0x7C00_0000 == 0x1400_0000:
            yield place + 4 * _signed(word & 0x3FF_FFFF, 26)


def test_addresses_of_constants_lead_to_them():
    image, code = _image(CALLS_AND_CONSTANTS)
    table, factor = list(_addresses(code, image.offset("looked_up")))[:2]
    assert struct.unpack_from("<4q", code, table - _BASE) == (10, 20, 30, 40)
    assert struct.unpack_from("<d", code, factor - _BASE) == (3.141592653589793,)


def test_calls_lead_to_functions():
    image, code = _image(CALLS_AND_CONSTANTS)
    assert list(_calls(code, image.offset("sum"), 0x4C)) == [image.offset("looked_up")] * 2


def test_calls_of_others_lead_through_their_slots():
    image, code = _image(LIBRARY_CALLS)
    places = list(_calls(code, image.offset("fill"), image.offset("move") + 16))
    words = [struct.unpack_from("<Q", code, place - 8)[0] for place in places]
    assert words == list(_OUTSIDE.values())
    jump = JUMPS[Machine.AARCH64]
    assert all(code[place : place + len(jump)] == jump for place in places)
    load, branch = struct.unpack("<II", jump)
    # ldr x16, (this - 8); br x16
    assert (load >> 24, load & 31, _signed(load >> 5 & 0x7FFFF, 19) * 4) == (0x58, 16, -8)
    assert branch == 0xD61F_0000 | 16 << 5
    assert 8 + len(jump) <= SLOT_BYTES


def test_tables_hold_addresses():
    image, code = _image(SWITCH)
    tables = list(_addresses(code, image.offset("named")))
    assert len(tables) == 2
    both = struct.unpack_from("<2Q", code, tables[1] - _BASE)
    assert both == (_BASE + image.offset("named"), _BASE + image.offset("twice"))


@pytest.mark.parametrize(
    ("machine", "kind", "target"),
    [
        (Machine.X86_64, 2, 1 << 33),
        (Machine.X86_64, 4, -(1 << 33)),
        (Machine.AARCH64, 283, 1 << 28),
        (Machine.AARCH64, 283, 2),
        (Machine.AARCH64, 275, 1 << 40),
        (Machine.AARCH64, 299, 8),
        (Machine.AARCH64, 261, 1 << 32),
    ],
)
def test_what_an_instruction_cannot_hold_is_an_error(machine, kind, target):
    with pytest.raises(MachineCodeError, match="cannot"):
        RULES[machine][kind].write(bytearray(8), 0, target, 0)


@pytest.mark.parametrize("lowest", [0, 16, 32, 48])
def test_four_instructions_make_up_an_address(lowest):
    image = bytearray(struct.pack("<I", 0xD280_0001))
    kind = {0: 264, 16: 266, 32: 268, 48: 269}[lowest]
    RULES[Machine.AARCH64][kind].write(image, 0, 0x1234_5678_9ABC_DEF0, 0)
    word = struct.unpack("<I", image)[0]
    assert word >> 5 & 0xFFFF == 0x1234_5678_9ABC_DEF0 >> lowest & 0xFFFF
    assert word & ~(0xFFFF << 5) == 0xD280_0001
