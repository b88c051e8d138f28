"""A relocatable object file made into an image that runs at an address.

    image   sections, each at its alignment | slots of symbols that others define, or that are reached through a word

Nothing in it is written once it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxgen.errors import MachineCodeError
from onnxgen.graph.cpu.step.elf_object import ElfObject, Relocation, UnknownFormError
from onnxgen.graph.cpu.step.relocations import JUMPS, RULES, SLOT_BYTES, Rule, Wants

MOST_IMAGE_BYTES = 64 << 20
"""No kernel comes near; relocations of 32 bits reach everywhere in it."""

MOST_ALIGNMENT = 4096
"""An image begins on a page."""


class Image:
    """The sections of an object file side by side, to be bound to an address.

    Args:
        elf: The object file.
        external: Address of a function of the C library by its name; None for those it does not give.

    Raises:
        UnknownFormError: It needs what we do not know.
        MachineCodeError: It is damaged.
    """

    def __init__(self, elf: ElfObject, external: Callable[[str], int | None]) -> None:
        self._elf = elf
        self._external = external
        self._rules = RULES[elf.machine]
        self._starts: dict[int, int] = {}
        end = 0
        for number, section in elf.sections.items():
            if section.alignment > MOST_ALIGNMENT:
                raise UnknownFormError(f"a section is aligned to {section.alignment} bytes")
            start = -(-end // section.alignment) * section.alignment
            self._starts[number] = start
            end = start + len(section.content)
        self._slots: dict[int, int] = {}
        for relocation in elf.relocations:
            if self._needs_slot(relocation):
                first = -(-end // SLOT_BYTES) * SLOT_BYTES
                self._slots.setdefault(relocation.symbol, first + len(self._slots) * SLOT_BYTES)
        self.num_bytes = max([end, *(start + SLOT_BYTES for start in self._slots.values())])
        if not 0 < self.num_bytes <= MOST_IMAGE_BYTES:
            raise MachineCodeError(
                f"expected 1 to {MOST_IMAGE_BYTES} bytes of machine code, found {self.num_bytes}"
            )

    def offset(self, symbol: str) -> int:
        """Where a symbol lies in the image.

        Raises:
            MachineCodeError: There is no such symbol in it.
        """
        for each in self._elf.symbols:
            if each.name == symbol and each.section in self._starts:
                if each.value < len(self._elf.sections[each.section].content):
                    return self._starts[each.section] + each.value
                break
        raise MachineCodeError(f"the object file does not hold {symbol!r}; it is damaged or another's")

    def bound(self, address: int) -> bytes:
        """The bytes to put at an address.

        Raises:
            UnknownFormError: A symbol or a kind of relocation is not known.
            MachineCodeError: A relocation does not fit.
        """
        image = bytearray(self.num_bytes)
        for number, start in self._starts.items():
            content = self._elf.sections[number].content
            image[start : start + len(content)] = content
        jump = JUMPS[self._elf.machine]
        for symbol, start in self._slots.items():
            image[start : start + 8] = self._address(symbol, address).to_bytes(8, "little")
            image[start + 8 : start + 8 + len(jump)] = jump
        for relocation in self._elf.relocations:
            self._relocate(image, relocation, address)
        return bytes(image)

    def _rule(self, relocation: Relocation) -> Rule:
        rule = self._rules.get(relocation.kind)
        if rule is None:
            raise UnknownFormError(f"relocations of kind {relocation.kind} are not known")
        return rule

    def _needs_slot(self, relocation: Relocation) -> bool:
        wants = self._rule(relocation).wants
        is_outside = self._elf.symbols[relocation.symbol].section is None
        return wants is Wants.WORD or (wants is Wants.CALL and is_outside)

    def _relocate(self, image: bytearray, relocation: Relocation, address: int) -> None:
        rule = self._rule(relocation)
        size = len(self._elf.sections[relocation.section].content)
        if relocation.offset + rule.size > size:
            raise MachineCodeError(
                f"a relocation lies at {relocation.offset} of a section of {size} bytes; it is damaged"
            )
        slot = self._slots.get(relocation.symbol)
        if rule.wants is Wants.WORD and slot is not None:
            target = address + slot
        elif rule.wants is Wants.CALL and slot is not None:
            target = address + slot + 8
        else:
            target = self._address(relocation.symbol, address)
        offset = self._starts[relocation.section] + relocation.offset
        rule.write(image, offset, target + relocation.addend, address + offset)

    def _address(self, number: int, address: int) -> int:
        symbol = self._elf.symbols[number]
        if symbol.section is None:
            found = self._external(symbol.name)
            if found is None:
                raise UnknownFormError(f"nobody defines {symbol.name!r}")
            return found
        if symbol.section not in self._starts:
            raise UnknownFormError(
                f"{symbol.name!r} lies in section {symbol.section:#x}, which is not mapped"
            )
        if symbol.value > len(self._elf.sections[symbol.section].content):
            raise MachineCodeError(f"{symbol.name!r} lies outside its section; it is damaged")
        return address + self._starts[symbol.section] + symbol.value
