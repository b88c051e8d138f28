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
    """Undo `pack` for each row: the first ``count`` unsigned integers of ``[..., bytes]``, as uint8 ``[..., count]``.

    Args:
        packed: ``uint8 [..., bytes]``.
        width: Bits of an element, 1 to 8; those that do not divide 8 lie across bytes.
        count: Elements of a row.
    """
    if width == 8:
        return packed[..., :count]
    if 8 % width == 0:
        shifts = np.arange(0, 8, width, dtype=np.uint8)
        parts = (packed[..., None] >> shifts) & np.uint8((1 << width) - 1)  # [..., bytes, elements in a byte]
        return parts.reshape(*packed.shape[:-1], -1)[..., :count]
    flat = np.unpackbits(packed, axis=-1, count=count * width, bitorder="little")
    weights = (1 << np.arange(width)).astype(np.uint8)
    return (flat.reshape(*packed.shape[:-1], count, width) * weights).sum(-1, dtype=np.uint8)


def _per_byte(width: int) -> int:
    assert width in _PACKABLE, width
    return 8 // width
