"""Numbers of keys and values as they are stored, 16 or 8 bits each, in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from onnxgen.graph.cpu.compiled.vectors import I8, VECTOR_BYTES, WORDS, load

_BYTES = ir.VectorType(I8, WORDS.count)


def stored_bytes(bits: int) -> int:
    """Memory of as many numbers as a register has words."""
    return VECTOR_BYTES * bits // 16


def load_words(b: Any, place: Any, bits: int) -> Any:
    """WORDS from an address: one instruction either way, but int8 takes half the bandwidth."""
    return load(b, place, WORDS) if bits == 16 else b.sext(load(b, place, _BYTES), WORDS)
