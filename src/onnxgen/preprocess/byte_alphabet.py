"""The alphabet of byte-level tokenizers: one printable character for each byte."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _byte_of_character() -> dict[str, int]:
    # Printable Latin-1 stands for itself; the other bytes take the characters from U+0100 on, in order.
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    return alphabet


BYTE_OF_CHARACTER: Mapping[str, int] = MappingProxyType(_byte_of_character())
"""Byte that each of the 256 characters stands for."""

CHARACTER_OF_BYTE: Mapping[int, str] = MappingProxyType({b: c for c, b in BYTE_OF_CHARACTER.items()})
"""Character that stands for each byte."""


def token_bytes(token: str) -> bytes:
    """Bytes of a byte-level token; one with any other character (an added token) is its own UTF-8."""
    try:
        return bytes(map(BYTE_OF_CHARACTER.__getitem__, token))
    except KeyError:
        return token.encode()
