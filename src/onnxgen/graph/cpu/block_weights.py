"""Constant weights of operators, in a form that there are kernels for (`onnxgen.graph.cpu.packed_blocks`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.foundations.packed_bits import pack, unpack
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.packed_blocks import BITS, BLOCK_SIZES, BlockMatrix


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """The weights of ``MatMulNBits``, before anything is known of kernels.

    Attributes:
        codes: uint8 ``[columns, blocks, block * bits / 8]``, elements packed along the depth.
        scales: Floats ``[columns, blocks]``; any shape of that size.
        zeros: uint8 ``[columns, ceil(blocks * bits / 8)]``, packed; or floats ``[columns, blocks]``; None for the middle.
        depth: K.
        bits: 1 to 8.
        block: Elements that share a scale.
        group_index: The block of each element along the depth; None where it follows from the place.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    depth: int
    bits: int
    block: int
    group_index: np.ndarray | None = None

    @property
    def columns(self) -> int:
        """N."""
        return len(self.codes)

    @property
    def blocks(self) -> int:
        """Blocks of each column."""
        return -(-self.depth // self.block)

    def elements(self) -> np.ndarray:
        """uint8 ``[columns, blocks * block]``, unpacked."""
        return unpack(self.codes.reshape(self.columns, self.blocks, -1), self.bits, self.block).reshape(
            self.columns, -1
        )

    def zero_points(self) -> np.ndarray:
        """``[columns, blocks]``: uint8, or float32."""
        if self.zeros is None:
            return np.full((self.columns, self.blocks), 1 << (self.bits - 1), np.uint8)
        if self.zeros.dtype == np.uint8:
            return unpack(self.zeros.reshape(self.columns, -1), self.bits, self.blocks)
        return widened(self.zeros).reshape(self.columns, self.blocks)

    def dequantized(self) -> np.ndarray:
        """float32 ``[columns, depth]``; blocks where they lie."""
        elements = self.elements().reshape(self.columns, self.blocks, -1).astype(np.float32)
        scales = widened(self.scales).reshape(self.columns, self.blocks, 1)
        values = (elements - self.zero_points()[..., None].astype(np.float32)) * scales
        return values.reshape(self.columns, -1)[:, : self.depth]


@dataclass(frozen=True, slots=True)
class Arranged:
    """Weights as kernels take them.

    Attributes:
        matrix: The matrix.
        order: Where each element of a row of activations comes from; None when they stay where they are.
    """

    matrix: BlockMatrix
    order: np.ndarray | None = None


def arranged(weights: BlockWeights) -> Arranged | None:
    """The same weights with bits and blocks of kernels; None where no form of them has any.

    Elements of other widths get 4 or 8 bits. Blocks of other sizes become several smaller ones with one scale. Blocks that are
    spread over the depth (``group_index``) are gathered, if each has as many elements as a block has.
    """
    if weights.bits in BITS and weights.block in BLOCK_SIZES and weights.group_index is None:
        return Arranged(
            BlockMatrix(
                weights.codes, weights.scales, weights.zeros, weights.depth, weights.bits, weights.block
            )
        )
    block = next((size for size in reversed(BLOCK_SIZES) if weights.block % size == 0), None)
    if block is None:
        return None
    order = None
    elements = weights.elements()
    if weights.group_index is not None:
        order = np.argsort(weights.group_index, kind="stable")
        if not np.array_equal(weights.group_index[order], np.arange(weights.depth) // weights.block):
            return None
        elements = np.pad(elements[:, order], ((0, 0), (0, elements.shape[1] - weights.depth)))
    bits = next(each for each in BITS if each >= weights.bits)
    blocks, parts = -(-weights.depth // block), weights.block // block
    codes = packed_rows(elements[:, : blocks * block], bits).reshape(weights.columns, blocks, -1)
    scales = np.repeat(weights.scales.reshape(weights.columns, weights.blocks), parts, axis=1)[:, :blocks]
    zeros = np.repeat(weights.zero_points(), parts, axis=1)[:, :blocks]
    zeros = packed_rows(zeros, bits) if zeros.dtype == np.uint8 else zeros
    matrix = BlockMatrix(codes, np.ascontiguousarray(scales), zeros, weights.depth, bits, block)
    return Arranged(matrix, order)


def packed_rows(elements: np.ndarray, bits: int) -> np.ndarray:
    """uint8 ``[rows, count]``, packed, each row in whole bytes; 2, 4 or 8 bits."""
    if bits == 8:
        return np.ascontiguousarray(elements)
    per_byte = 8 // bits
    whole = np.pad(elements, ((0, 0), (0, -elements.shape[1] % per_byte)))
    return pack(whole, bits).reshape(len(elements), -1)
