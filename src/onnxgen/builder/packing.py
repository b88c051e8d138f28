"""Codes of 4 and 8 bits in bytes, the first of two 4-bit neighbours in the low half."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def pack_codes(codes: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Pack codes along the last axis, padding an odd number of 4-bit codes with 0.

    Args:
        codes: uint8 ``[..., n]``, each below ``2**bits``.
        bits: 4 or 8.

    Returns:
        uint8 ``[..., ceil(n * bits / 8)]``; the same array with 8 bits.
    """
    if bits == 8:
        return codes
    if codes.shape[-1] % 2:
        codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], axis=-1)
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


def unpack_codes(packed: npt.NDArray[np.uint8], bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Undo `pack_codes`: uint8 ``[..., count]``, one code in each byte."""
    if bits == 8:
        return packed[..., :count]
    codes = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.uint8)
    codes[..., 0::2] = packed & np.uint8(0x0F)
    codes[..., 1::2] = packed >> np.uint8(4)
    return codes[..., :count]
