"""Elements of less than a byte, packed as files and other libraries store them."""

from __future__ import annotations

import numpy as np

_PACKABLE = (1, 2, 4)


def pack(bits: np.ndarray, width: int) -> np.ndarray:
    """Join the low bits of each byte; the first element comes to lie lowest.

    Args:
        bits: ``uint8``, any shape; taken in C order.
        width: Bits of an element: 1, 2 or 4.

    Returns:
        ``uint8 [ceil(size * width / 8)]``; bits after the last element are zero.
    """
    per_byte = _per_byte(width)
    flat = np.zeros(-(-bits.size // per_byte) * per_byte, np.uint8)
    flat[: bits.size] = bits.reshape(-1) & (2**width - 1)
    rows = flat.reshape(-1, per_byte)  # [bytes, per_byte]
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(width)
    return np.bitwise_or.reduce(rows << shifts, axis=1, dtype=np.uint8)


def unpack(packed: np.ndarray, width: int, count: int) -> np.ndarray:
    """Undo `pack`: ``uint8 [count]``, each element in the low bits of its byte."""
    per_byte = _per_byte(width)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(width)
    rows = packed.reshape(-1, 1) >> shifts  # [bytes, per_byte]
    return (rows & np.uint8(2**width - 1)).reshape(-1)[:count]


def _per_byte(width: int) -> int:
    assert width in _PACKABLE, width
    return 8 // width
