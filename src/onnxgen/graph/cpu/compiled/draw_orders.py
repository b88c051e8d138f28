"""What the kernels that draw tokens are told of a row, in words of 8 bytes."""

from __future__ import annotations

import struct
from enum import IntEnum

BLOCK = 512
"""Floats of a row whose maximum and sum are noted together."""

ITEM_PLACES = (1 << 32) - 1
"""The bits of an item that are its token's id; the others order items from the best token downwards."""


class Narrowing(IntEnum):
    """What decides which tokens may be drawn.

    Attributes:
        PLAIN: Temperature, top-k and top-p alone.
        FILTERS: All filters, one after the other.
        MIROSTAT: Mirostat's first version: TOP_K is the number of tokens that it estimated.
        MIROSTAT_2: Its second: LEAST is the share of the row's weight from which on a token may be drawn.
        ZIPF: Nothing is drawn; what the first version estimates from is asked for.
    """

    PLAIN = 0
    FILTERS = 1
    MIROSTAT = 2
    MIROSTAT_2 = 3
    ZIPF = 4


class Order(IntEnum):
    """Indices of a row's words.

    Attributes:
        ADDRESS: Of its logits, float32 ``[vocab]``.
        BY: The inverse temperature in float32; 0 takes the best token.
        BY_REST: What that lacks of it, in float32.
        TOP_K: From 1 on, less than the vocabulary; 0 is off.
        TOP_P: In float64, as all that follow but NARROWING; 1 is off.
        SEED: With STREAM and POSITION, which random number is the row's.
        STREAM: See there.
        POSITION: See there.
        NARROWING: See there.
        TOP_N_SIGMA: 0 is off.
        TYPICAL_P: 1 is off.
        MIN_P: 0 is off.
        DEPTH: So many temperatures below the best, roughly, min-p ends; infinite where it is off, or others that come before it look
            at the tokens that it removes.
        TOP_A: 0 is off.
        XTC_PROBABILITY: 0 is off.
        XTC_THRESHOLD: See there.
        LEAST: Of MIROSTAT_2.
        MASK: Address of the bits of the tokens that may be chosen (`onnxgen.graph.cpu.compiled.masked_rows`); 0: all may.
    """

    ADDRESS = 0
    BY = 1
    BY_REST = 2
    TOP_K = 3
    TOP_P = 4
    SEED = 5
    STREAM = 6
    POSITION = 7
    NARROWING = 8
    TOP_N_SIGMA = 9
    TYPICAL_P = 10
    MIN_P = 11
    DEPTH = 12
    TOP_A = 13
    XTC_PROBABILITY = 14
    XTC_THRESHOLD = 15
    LEAST = 16
    MASK = 17


ORDER_WORDS = len(Order)

PACKED_ORDER = struct.Struct("=Qf4xf4xqdQQQqddddddddQ")
"""How these words are written, in their order."""

assert PACKED_ORDER.size == 8 * ORDER_WORDS
