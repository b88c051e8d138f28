"""What the kernel that draws tokens is told of a row, in words of 8 bytes."""

from __future__ import annotations

import struct
from enum import IntEnum

BLOCK = 512
"""Floats of a row whose maximum and sum are noted together."""


class Order(IntEnum):
    """Indices of a row's words.

    Attributes:
        ADDRESS: Of its logits, float32 ``[vocab]``.
        BY: The inverse temperature in float32; 0 takes the best token.
        BY_REST: What that lacks of it, in float32.
        TOP_K: From 1 on, less than the vocabulary; 0 is off.
        TOP_P: In float64; 1 is off.
        SEED: With STREAM and POSITION, which random number is the row's.
        STREAM: See there.
        POSITION: See there.
    """

    ADDRESS = 0
    BY = 1
    BY_REST = 2
    TOP_K = 3
    TOP_P = 4
    SEED = 5
    STREAM = 6
    POSITION = 7


ORDER_WORDS = len(Order)

PACKED_ORDER = struct.Struct("=Qf4xf4xqdQQQ")
"""How these words are written, in their order."""

assert PACKED_ORDER.size == 8 * ORDER_WORDS
