"""Integers of a few bits packed into bytes, the first in the lowest bits."""

from __future__ import annotations

import numpy as np


def unpack(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first ``count`` unsigned integers of each row ``[..., bytes]``, as uint8 ``[..., count]``."""
    if bits == 8:
        return packed[..., :count]
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)  # [..., bytes, integers in a byte]
        return parts.reshape(*packed.shape[:-1], -1)[..., :count]
    flat = np.unpackbits(packed, axis=-1, count=count * bits, bitorder="little")
    weights = (1 << np.arange(bits)).astype(np.uint8)
    return (flat.reshape(*packed.shape[:-1], count, bits) * weights).sum(-1, dtype=np.uint8)
