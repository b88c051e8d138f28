"""Relocatable ELF files of 64 bits: sections that a process maps, symbols, and places to fill in.

    header | sections ... | table of section headers
                            each: name, type, flags, where its bytes lie, alignment, links to others

Every offset is checked against the bytes there are: what does not fit is an error, never a read outside.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from onnxgen.errors import MachineCodeError


class UnknownFormError(MachineCodeError):
    """Nothing is damaged as far as we can tell, but it uses what we do not know."""


class Machine(IntEnum):
    """Processors whose relocations we know."""

    X86_64 = 62
    AARCH64 = 183


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes that the process maps.

    Attributes:
        content: What they are before relocation.
        alignment: A power of two.
    """

    content: memoryview
    alignment: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a place.

    Attributes:
        name: Empty for sections.
        section: The number of its section; None for what another file defines.
        value: Offset in the section.
    """

    name: str
    section: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place that depends on where a symbol lies.

    Attributes:
        section: The number of the section to change.
        offset: Where in it.
        kind: What to write, a number of the processor's own.
        symbol: The number of the symbol.
        addend: To be added to its address.
    """

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfObject:
    """What a linker needs of a relocatable file.

    Attributes:
        machine: The processor.
        sections: By number, those that are mapped.
        symbols: In the order of the file.
        relocations: Of the mapped sections.
    """

    machine: Machine
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL = 1, 2, 4, 8, 9
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_UNDEFINED, _RESERVED = 0, 0xFF00


@dataclass(frozen=True, slots=True)
class _Header:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def read_elf(code: bytes) -> ElfObject:
    """Read a relocatable file.

    Raises:
        UnknownFormError: It has writable or thread-local data, or is for a processor that we do not know.
        MachineCodeError: It is no such file, or is damaged.
    """
    view = memoryview(code)
    if len(view) < _FILE.size or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise MachineCodeError(f"expected an ELF file of 64 bits, found {len(view)} bytes that are none")
    fields = _FILE.unpack_from(view)
    kind, machine, table, entry, count, names = (fields[place] for place in (1, 2, 6, 11, 12, 13))
    if kind != _RELOCATABLE or entry != _SECTION.size:
        raise MachineCodeError(
            f"expected a relocatable ELF file, found type {kind} with entries of {entry} bytes"
        )
    headers = [_header(each) for each in _entries(view, table, count * _SECTION.size, _SECTION)]
    if machine not in set(Machine):
        raise UnknownFormError(f"the ELF file is for processor {machine}")
    named = _strings(view, headers, names)
    sections = {
        number: _section(view, header)
        for number, header in enumerate(headers)
        if header.flags & _ALLOC and header.size and not _is_left_out(header, _text(named, header.name))
    }
    tables = [number for number, header in enumerate(headers) if header.kind == _SYMTAB]
    if len(tables) != 1:
        raise MachineCodeError(f"expected one table of symbols in the ELF file, found {len(tables)}")
    symbols = tuple(_symbols(view, headers, headers[tables[0]]))
    relocations = tuple(_relocations(view, headers, sections, tables[0], len(symbols)))
    return ElfObject(Machine(machine), sections, symbols, relocations)


def _header(fields: tuple[int, ...]) -> _Header:
    name, kind, flags, _, offset, size, link, info, alignment, entry_size = fields
    return _Header(name, kind, flags, offset, size, link, info, alignment, entry_size)


def _slice(view: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(view):
        raise MachineCodeError(
            f"the ELF file points to bytes {offset} to {offset + size}, it has {len(view)}; it is damaged"
        )
    return view[offset : offset + size]


def _entries(view: memoryview, offset: int, size: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
    if size % form.size:
        raise MachineCodeError(f"a table of the ELF file has {size} bytes, no multiple of {form.size}")
    return form.iter_unpack(_slice(view, offset, size))


def _is_left_out(header: _Header, name: str) -> bool:
    """Whether a section is not needed to run: what unwinds the stack, and notes."""
    if name.startswith((".eh_frame", ".note")):
        return True
    if header.flags & _TLS or header.kind not in (_PROGBITS, _NOBITS):
        raise UnknownFormError(f"the ELF file has a section {name} of type {header.kind}")
    # Written by relocation only, and constant afterwards.
    if header.kind == _NOBITS or (header.flags & _WRITE and not name.startswith(".data.rel.ro")):
        raise UnknownFormError(f"the ELF file has writable memory in {name}")
    return False


def _section(view: memoryview, header: _Header) -> Section:
    alignment = max(1, header.alignment)
    if alignment & (alignment - 1):
        raise MachineCodeError(f"a section of the ELF file is aligned to {alignment}, no power of two")
    return Section(_slice(view, header.offset, header.size), alignment)


def _strings(view: memoryview, headers: list[_Header], number: int) -> bytes:
    if number >= len(headers):
        raise MachineCodeError(f"the ELF file names section {number} of {len(headers)}; it is damaged")
    return bytes(_slice(view, headers[number].offset, headers[number].size))


def _text(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    if end < 0 and start:
        raise MachineCodeError(f"a name of the ELF file begins at {start} and has no end; it is damaged")
    return strings[start:end].decode("utf-8", "replace") if start else ""


def _symbols(view: memoryview, headers: list[_Header], table: _Header) -> Iterator[Symbol]:
    strings = _strings(view, headers, table.link)
    for name, _, _, section, value, _ in _entries(view, table.offset, table.size, _SYMBOL):
        if _UNDEFINED < section < _RESERVED and section >= len(headers):
            raise MachineCodeError(f"a symbol of the ELF file lies in section {section} of {len(headers)}")
        yield Symbol(_text(strings, name), section or None, value)


def _relocations(
    view: memoryview, headers: list[_Header], sections: dict[int, Section], symtab: int, num_symbols: int
) -> Iterator[Relocation]:
    for header in headers:
        if header.info not in sections or header.kind not in (_RELA, _REL):
            continue
        if header.kind == _REL or header.link != symtab:
            raise UnknownFormError("the ELF file has relocations without addends, or of other symbols")
        for offset, info, addend in _entries(view, header.offset, header.size, _RELOCATION):
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            if symbol >= num_symbols:
                raise MachineCodeError(
                    f"the ELF file relocates by symbol {symbol} of {num_symbols}; it is damaged"
                )
            yield Relocation(header.info, offset, kind, symbol, addend)
