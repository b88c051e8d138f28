"""Round-to-nearest block quantization, and the same blocks back to floats.

Everything works on chunks of rows, so that what is held beside input and output stays below about 64 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.packing import pack_codes, unpack_codes
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import BuildError, OptionError

BLOCK_SIZES = (16, 32, 64, 128, 256)
"""Block sizes that ``com.microsoft.MatMulNBits`` takes."""

# About six float32 temporaries of this many values are alive at once: 48 MB.
_CHUNK_VALUES = 1 << 21


def row_chunks(rows: int, columns: int) -> Iterator[slice]:
    """Cut ``rows`` into slices that hold a bounded number of values (at least one row each)."""
    step = max(1, _CHUNK_VALUES // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def quantize_blocks(
    weights: npt.NDArray[Any], *, bits: int, block_size: int, symmetric: bool
) -> BlockQuantized:
    """Quantize a matrix to the nearest code in blocks along its rows.

    Symmetric blocks take their scale from the value of the largest magnitude, divided by ``-2**(bits-1)``:
    that value is exact, and the sign of the scale says on which side it lies. Asymmetric blocks span
    from the smallest to the largest value, zero included, so that zero is exact.

    Args:
        weights: Float ``[out_features, in_features]`` of any float type.
        bits: 4 or 8.
        block_size: 16, 32, 64, 128 or 256. The last block of a row is padded when it is not full.
        symmetric: Zero point in the middle of the codes, or one for each block.

    Raises:
        OptionError: ``bits`` or ``block_size`` is not one of these.
        BuildError: A weight is infinite or not a number.
    """
    if bits not in (4, 8):
        raise OptionError(f"cannot quantize to {bits} bits; use 4 or 8")
    if block_size not in BLOCK_SIZES:
        known = ", ".join(str(size) for size in BLOCK_SIZES)
        raise OptionError(f"cannot quantize in blocks of {block_size}; use one of {known}")
    rows, columns = weights.shape
    blocks = -(-columns // block_size)
    codes = np.empty((rows, blocks, block_size * bits // 8), np.uint8)
    scales = np.empty((rows, blocks), np.float32)
    zero_points = None if symmetric else np.empty((rows, -(-blocks * bits // 8)), np.uint8)
    for chunk in row_chunks(rows, blocks * block_size):
        values = np.zeros((chunk.stop - chunk.start, blocks * block_size), np.float32)
        values[:, :columns] = weights[chunk]
        values = values.reshape(-1, blocks, block_size)
        scale, zero_point = _symmetric_grid(values, bits) if symmetric else _asymmetric_grid(values, bits)
        if not np.isfinite(scale).all():
            row = chunk.start + int(np.argwhere(~np.isfinite(scale))[0, 0])
            raise BuildError(
                f"cannot quantize: row {row} of a matrix of {rows} x {columns} holds an infinite value, "
                "one that is not a number, or values whose range overflows float32"
            )
        codes[chunk] = pack_codes(_nearest_codes(values, scale, zero_point, bits), bits)
        scales[chunk] = scale
        if zero_points is not None:
            zero_points[chunk] = pack_codes(zero_point.astype(np.uint8), bits)
    return BlockQuantized(bits, block_size, columns, codes, scales, zero_points)


def dequantize_blocks(blocks: BlockQuantized) -> npt.NDArray[np.float32]:
    """The values of a quantized matrix, float32 ``[out_features, in_features]``."""
    rows, count = blocks.scales.shape
    columns = blocks.in_features
    values = np.empty((rows, columns), np.float32)
    for chunk in row_chunks(rows, count * blocks.block_size):
        codes = unpack_codes(blocks.codes[chunk], blocks.bits, blocks.block_size).astype(np.float32)
        codes -= _float_zero_points(blocks, chunk)[..., None]
        codes *= blocks.scales[chunk][..., None]
        values[chunk] = codes.reshape(-1, count * blocks.block_size)[:, :columns]
    return values


def _float_zero_points(blocks: BlockQuantized, chunk: slice) -> npt.NDArray[np.float32]:
    """Zero points of some rows, float32 ``[rows, blocks]`` (or ``[1, 1]`` where all are the same)."""
    if blocks.zero_points is None:
        return np.full((1, 1), 1 << (blocks.bits - 1), np.float32)
    zero_points = blocks.zero_points[chunk]
    if zero_points.dtype == np.uint8:
        packed = zero_points.view(np.uint8)
        return unpack_codes(packed, blocks.bits, blocks.scales.shape[1]).astype(np.float32)
    return zero_points.astype(np.float32, copy=False)


def _symmetric_grid(
    values: npt.NDArray[np.float32], bits: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    low, high = values.min(axis=-1), values.max(axis=-1)
    extreme = np.where(high > -low, high, low)
    middle = 1 << (bits - 1)
    return extreme / np.float32(-middle), np.full_like(extreme, middle)


def _asymmetric_grid(
    values: npt.NDArray[np.float32], bits: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    top = np.float32((1 << bits) - 1)
    low = np.minimum(values.min(axis=-1), np.float32(0))
    high = np.maximum(values.max(axis=-1), np.float32(0))
    with np.errstate(over="ignore", invalid="ignore"):  # reported by the caller, with the row
        scale = (high - low) / top
        zero_point = np.rint(-low / np.where(scale == 0, np.float32(1), scale))
    return scale, np.clip(zero_point, 0, top)


def _nearest_codes(
    values: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32],
    zero_point: npt.NDArray[np.float32],
    bits: int,
) -> npt.NDArray[np.uint8]:
    """Codes of the nearest grid points, uint8 ``[rows, blocks, block_size]``. Overwrites ``values``."""
    # Dividing, not multiplying by the inverse: the inverse of a denormal scale is infinite.
    values /= np.where(scale == 0, np.float32(1), scale)[..., None]
    np.rint(values, out=values)
    values += zero_point[..., None]
    np.clip(values, 0, (1 << bits) - 1, out=values)
    return values.astype(np.uint8)


def concat_rows(parts: list[BlockQuantized]) -> BlockQuantized | None:
    """Stack quantized matrices of the same width on each other without changing a value.

    Parts need not look alike: symmetric blocks get zero points where others have them, packed zero points
    become floats where others have floats, and larger blocks are cut into smaller ones.

    Returns:
        None when no common form holds all of them exactly: bits differ, a block size does not divide
        another, or 8-bit blocks would need float zero points.

    Raises:
        ValueError: There are no parts, or their ``in_features`` differ.
    """
    if not parts:
        raise ValueError("no matrices to concatenate")
    widths = {part.in_features for part in parts}
    if len(widths) > 1:
        raise ValueError(f"cannot stack matrices of different widths: {sorted(widths)}")
    if len({part.bits for part in parts}) > 1:
        return None
    block_size = min(part.block_size for part in parts)
    if any(part.block_size % block_size for part in parts):
        return None
    parts = [_cut_blocks(part, block_size) for part in parts]
    first = parts[0]
    zero_points = _common_zero_points(parts)
    return BlockQuantized(
        bits=first.bits,
        block_size=block_size,
        in_features=first.in_features,
        codes=np.concatenate([part.codes for part in parts]),
        scales=np.concatenate([part.scales for part in parts]),
        zero_points=zero_points,
    )


def _cut_blocks(part: BlockQuantized, block_size: int) -> BlockQuantized:
    """The same values in smaller blocks; blocks that would hold padding only are left out."""
    if part.block_size == block_size:
        return part
    times = part.block_size // block_size
    rows, before = part.scales.shape
    after = -(-part.in_features // block_size)
    stored, zero_points = part.zero_points, None
    if stored is not None and stored.dtype == np.uint8:
        codes = unpack_codes(stored.view(np.uint8), part.bits, before)
        zero_points = pack_codes(np.repeat(codes, times, axis=1)[:, :after], part.bits)
    elif stored is not None:
        zero_points = np.repeat(stored.view(np.float32), times, axis=1)[:, :after]
    return BlockQuantized(
        bits=part.bits,
        block_size=block_size,
        in_features=part.in_features,
        codes=part.codes.reshape(rows, before * times, block_size * part.bits // 8)[:, :after],
        scales=np.repeat(part.scales, times, axis=1)[:, :after],
        zero_points=zero_points,
    )


def _common_zero_points(
    parts: list[BlockQuantized],
) -> npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None:
    kinds = {None if part.zero_points is None else part.zero_points.dtype for part in parts}
    if kinds == {None}:
        return None
    if np.dtype(np.float32) in kinds:
        return np.concatenate(
            [np.broadcast_to(_float_zero_points(part, slice(None)), part.scales.shape) for part in parts]
        )
    return np.concatenate([_packed_zero_points(part) for part in parts])


def _packed_zero_points(part: BlockQuantized) -> npt.NDArray[np.uint8]:
    if part.zero_points is not None:
        return part.zero_points.view(np.uint8)
    middle = np.full(part.scales.shape, 1 << (part.bits - 1), np.uint8)
    return pack_codes(middle, part.bits)
