"""GGUF's quantized blocks as `BlockQuantized`, value for value.

| stored | becomes | zero point |
|---|---|---|
| Q4_0 | 4 bits, blocks of 32 | 8 |
| Q4_1, Q4_K | 4 bits, blocks of 32 | float32 ``-min / scale`` |
| Q5_0 | 8 bits, blocks of 32 | 128 |
| Q6_K | 8 bits, blocks of 16 | 128 |
| Q8_0 | 8 bits, blocks of 32 | 128 |

Q5_1 and Q5_K are not here: their minimum is no whole multiple of their scale, and 8-bit blocks have no
float zero points. Values with a float zero point differ from GGUF's formula ``code * scale + min`` by the
rounding of float32 alone.

Layouts: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Blocks with one code in each byte.

    Attributes:
        codes: uint8 ``[stored_blocks, blocks, block_size]``; a stored block may hold several.
        scales: float32 ``[stored_blocks, blocks]``.
        minimums: float32 ``[stored_blocks, blocks]``, the value of code 0; None when the zero point is
            the middle of the codes.
    """

    codes: Bytes
    scales: Floats
    minimums: Floats | None = None


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """How a type is carried over.

    Attributes:
        bits: Of the codes in `BlockQuantized`.
        block_size: Of `BlockQuantized`, not of the stored block.
        float_zero_points: Whether it has float32 zero points; else they are the middle of the codes.
        unpack: Takes uint8 ``[stored_blocks, block_bytes]``.
    """

    bits: int
    block_size: int
    float_zero_points: bool
    unpack: Callable[[Bytes], Unpacked]


def with_zero_points(unpacked: Unpacked) -> tuple[Bytes, Floats, Floats]:
    """Codes, scales and float zero points with ``(code - zero_point) * scale = code * scale + minimum``.

    A block of scale 0 holds its minimum everywhere: codes 0, zero point -1, the minimum as scale.
    """
    assert unpacked.minimums is not None
    flat = unpacked.scales == 0
    scales = np.where(flat, unpacked.minimums, unpacked.scales)
    zero_points = np.where(flat, np.float32(-1), -unpacked.minimums / np.where(flat, 1, unpacked.scales))
    codes = np.where(flat[..., None], np.uint8(0), unpacked.codes)
    return codes, scales, zero_points.astype(np.float32, copy=False)


def _halves(raw: Bytes) -> Floats:
    """float16 pairs of bytes ``[n, 2 * k]`` as float32 ``[n, k]``."""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: Bytes) -> Bytes:
    """Low nibbles, then high nibbles: ``[n, k]`` to ``[n, 2 * k]``."""
    return np.concatenate([raw & np.uint8(0x0F), raw >> np.uint8(4)], axis=-1)


def _q4_0(raw: Bytes) -> Unpacked:
    return Unpacked(_nibbles(raw[:, 2:])[:, None], _halves(raw[:, :2]))


def _q4_1(raw: Bytes) -> Unpacked:
    grid = _halves(raw[:, :4])
    return Unpacked(_nibbles(raw[:, 4:])[:, None], grid[:, :1], grid[:, 1:])


def _q5_0(raw: Bytes) -> Unpacked:
    fifth = np.unpackbits(raw[:, 2:6], axis=-1, bitorder="little")
    codes = _nibbles(raw[:, 6:]) | (fifth << np.uint8(4))
    return Unpacked((codes + np.uint8(128 - 16))[:, None], _halves(raw[:, :2]))


def _q8_0(raw: Bytes) -> Unpacked:
    return Unpacked((raw[:, 2:] ^ np.uint8(0x80))[:, None], _halves(raw[:, :2]))


def _q4_k(raw: Bytes) -> Unpacked:
    grid = _halves(raw[:, :4])
    scales, minimums = _six_bit_pairs(raw[:, 4:16])
    # Four groups of 32 bytes; a group's low nibbles are one block, its high nibbles the next.
    groups = raw[:, 16:].reshape(-1, 4, 32)
    codes = _nibbles(groups).reshape(-1, 8, 32)
    return Unpacked(codes, grid[:, :1] * scales, -(grid[:, 1:] * minimums))


def _six_bit_pairs(raw: Bytes) -> tuple[Floats, Floats]:
    """Eight scales and eight minimums of 6 bits each in 12 bytes.

    The first four of each are the low six bits of bytes 0..3 and 4..7. The others have their low four
    bits in bytes 8..11 (scales low, minimums high) and their high two bits atop the first eight bytes.
    """
    first, second, third = raw[:, 0:4], raw[:, 4:8], raw[:, 8:12]
    high_two, six, four = np.uint8(0x30), np.uint8(0x3F), np.uint8(0x0F)
    scales = np.concatenate([first & six, (third & four) | ((first >> 2) & high_two)], axis=-1)
    minimums = np.concatenate([second & six, (third >> 4) | ((second >> 2) & high_two)], axis=-1)
    return scales.astype(np.float32), minimums.astype(np.float32)


def _q6_k(raw: Bytes) -> Unpacked:
    # Two halves of 128 values: 64 bytes hold low nibbles of values 0..63 and (high) 64..127,
    # 32 bytes hold two bits each of values i, i + 32, i + 64, i + 96.
    low = _nibbles(raw[:, :128].reshape(-1, 2, 64)).reshape(-1, 256)
    pairs = raw[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = low | ((pairs & np.uint8(3)) << np.uint8(4)).reshape(-1, 256)
    scales = np.ascontiguousarray(raw[:, 192:208]).view(np.int8).astype(np.float32)
    return Unpacked((codes + np.uint8(128 - 32)).reshape(-1, 16, 16), _halves(raw[:, 208:]) * scales)


BLOCK_FORMATS: Mapping[str, BlockFormat] = {
    "Q4_0": BlockFormat(4, 32, False, _q4_0),
    "Q4_1": BlockFormat(4, 32, True, _q4_1),
    "Q4_K": BlockFormat(4, 32, True, _q4_k),
    "Q5_0": BlockFormat(8, 32, False, _q5_0),
    "Q6_K": BlockFormat(8, 16, False, _q6_k),
    "Q8_0": BlockFormat(8, 32, False, _q8_0),
}
"""Types whose values `BlockQuantized` holds exactly, by name."""
