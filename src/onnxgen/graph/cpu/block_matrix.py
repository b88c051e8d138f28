"""Quantized matrices before they are packed, and the format that holds several of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.compiled.blocks.format import BlockFormat, Zeros
from onnxgen.graph.cpu.half import widened

BITS = (2, 4, 8)
BLOCK_SIZES = (16, 32, 64, 128, 256)

_HALF_MOST, _HALF_LEAST_RMS = 65504.0, 2.0**-14
"""Scales beyond cannot be float16; scales of such a size lose bits there."""


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """A quantized matrix in the layout of ``com.microsoft.MatMulNBits`` (opset 1).

    Attributes:
        codes: uint8 ``[columns, blocks, block * bits / 8]``; elements along the depth, the first in the lowest bits.
        scales: ``[columns, blocks]``, float32, float16 or bfloat16; any shape of that size.
        zeros: uint8 ``[columns, ceil(blocks * bits / 8)]``, or of a float type ``[columns, blocks]``; None for the middle.
        depth: K, at most ``blocks * block``.
        bits: 2, 4 or 8.
        block: Elements that share a scale.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    depth: int
    bits: int
    block: int

    @property
    def columns(self) -> int:
        """N: rows of the arrays, columns of the product."""
        return self.codes.shape[0]


def check_together(matrices: Sequence[BlockMatrix], interleave: bool) -> None:
    """Raise KernelError for matrices that cannot be packed together, or that there are no kernels for."""
    first = matrices[0]
    for matrix in matrices:
        if matrix.bits not in BITS or matrix.block not in BLOCK_SIZES:
            raise KernelError(
                f"a matrix has {matrix.bits} bits in blocks of {matrix.block}; there are kernels for {BITS} bits in "
                f"blocks of {BLOCK_SIZES}"
            )
        shape = (matrix.depth, matrix.bits, matrix.block)
        if shape != (first.depth, first.bits, first.block):
            raise KernelError(
                f"matrices of (depth, bits, block) {shape} and {(first.depth, first.bits, first.block)} cannot be joined"
            )
        blocks = -(-matrix.depth // matrix.block)
        expected = matrix.columns * blocks * matrix.block * matrix.bits // 8
        if matrix.depth < 1 or matrix.codes.size != expected or matrix.scales.size != matrix.columns * blocks:
            raise KernelError(
                f"{matrix.columns} columns of depth {matrix.depth} in blocks of {matrix.block} have {expected} bytes and "
                f"{matrix.columns * blocks} scales; found {matrix.codes.size} and {matrix.scales.size}"
            )
    if interleave and (len(matrices) != 2 or matrices[0].columns != matrices[1].columns):
        columns = [matrix.columns for matrix in matrices]
        raise KernelError(f"a gate and what it gates have as many columns; found {columns}")


def format_of(matrices: Sequence[BlockMatrix], words: bool) -> BlockFormat:
    """The format that holds all of the matrices; see `onnxgen.graph.cpu.packed_blocks.pack`."""
    first = matrices[0]
    kinds: set[Zeros] = {_kind_of_zeros(matrix) for matrix in matrices}
    zeros: Zeros = "offsets" if "offsets" in kinds else "bytes" if "bytes" in kinds else "middle"
    exact = not all(_fits_half(matrix.scales, lossless=words) for matrix in matrices)
    if zeros == "offsets" and not exact:
        exact = words or not all(_fits_half(_offsets(matrix), lossless=False) for matrix in matrices)
    return BlockFormat(first.bits, first.block, zeros, exact, words)


def _kind_of_zeros(matrix: BlockMatrix) -> Zeros:
    if matrix.zeros is None:
        return "middle"
    if matrix.zeros.dtype != np.uint8:
        return "offsets"
    middle = sum(1 << (bit + matrix.bits - 1) for bit in range(0, 8, matrix.bits))
    blocks = -(-matrix.depth // matrix.block)
    if blocks * matrix.bits % 8 == 0 and (matrix.zeros == middle).all():
        return "middle"
    return "bytes"


def _fits_half(scales: np.ndarray, *, lossless: bool) -> bool:
    """Whether float16 holds these numbers: exactly, or to about 2^-11 of their usual size."""
    if scales.dtype == np.float16:
        return True
    values = as_float32(scales).reshape(-1)
    most = float(np.abs(values).max(initial=0))
    if not most <= _HALF_MOST:
        return False
    if lossless:
        return bool((values.astype(np.float16) == values).all())
    return most == 0 or float(np.dot(values, values) / values.size) ** 0.5 >= _HALF_LEAST_RMS


def zeros_of(matrix: BlockMatrix, form: BlockFormat) -> np.ndarray:
    """Zero points of the kind that the format has, in all matrices that are joined."""
    blocks = form.blocks(matrix.depth)
    stride = -(-blocks * form.bits // 8)
    if form.zeros == "bytes":
        if matrix.zeros is not None:
            return matrix.zeros.reshape(matrix.columns, stride)
        middle = sum(form.middle << bit for bit in range(0, 8, form.bits))
        return np.full((matrix.columns, stride), middle, np.uint8)
    if matrix.zeros is None:
        return np.full((matrix.columns, blocks), form.middle, np.float32)
    if matrix.zeros.dtype == np.uint8:
        packed = matrix.zeros.reshape(matrix.columns, stride)
        return unpack(packed, form.bits, blocks).astype(np.float32)
    return as_float32(matrix.zeros).reshape(matrix.columns, blocks)


def _offsets(matrix: BlockMatrix) -> np.ndarray:
    if matrix.zeros is None or matrix.zeros.dtype == np.uint8:
        return np.zeros(1, np.float32)
    middle = np.float32(1 << (matrix.bits - 1))
    return as_float32(matrix.scales).reshape(-1) * (middle - as_float32(matrix.zeros).reshape(-1))


def joined(matrices: Sequence[BlockMatrix]) -> BlockMatrix:
    """One matrix of several side by side; copies them."""
    first, form = matrices[0], format_of(matrices, words=False)
    codes = np.concatenate([matrix.codes.reshape(matrix.columns, -1) for matrix in matrices])
    scales = np.concatenate([as_float32(matrix.scales).reshape(matrix.columns, -1) for matrix in matrices])
    zeros = None
    if form.zeros != "middle":
        zeros = np.concatenate([zeros_of(matrix, form) for matrix in matrices])
    return BlockMatrix(codes, scales, zeros, first.depth, first.bits, first.block)


def as_float32(values: np.ndarray) -> np.ndarray:
    """The numbers in float32."""
    return np.asarray(widened(values), np.float32)
