"""Matrices of 2, 4 and 8 bits as the kernels of a step read them: packed once, when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.blocks import arguments
from onnxgen.graph.cpu.compiled.blocks.format import (
    LANES,
    PANEL_COLUMNS,
    PANEL_TILES,
    BlockFormat,
    Zeros,
)
from onnxgen.graph.cpu.compiled.blocks.schedule import parts_of_product, unpack_from
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.table import StepShape, StepTable

BITS = (2, 4, 8)
BLOCK_SIZES = (16, 32, 64, 128, 256)

_MOST_PARTS = 256

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


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """A packed matrix; `onnxgen.graph.cpu.compiled.blocks.format` draws it.

    Attributes:
        data: uint8 ``[panels * panel bytes]``.
        form: Its format.
        depth: K.
        columns: Columns of all matrices in it.
        interleaved: Its two matrices, a gate and what it gates, take turns tile by tile.
    """

    data: np.ndarray
    form: BlockFormat
    depth: int
    columns: int
    interleaved: bool = False

    @property
    def panels(self) -> int:
        """Panels of 64 columns, the last one filled up with zeros."""
        return self.data.size // self.panel_bytes

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.form.panel_bytes(self.depth)

    @property
    def num_bytes(self) -> int:
        """Bytes that a product of one row reads."""
        return self.data.size

    @property
    def groups(self) -> int:
        """Groups along the depth: each has a scale of the activations."""
        return self.form.groups(self.depth)

    def parts(self, rows: int, *, threads: int | None = None) -> int:
        """Parts of a product with so many rows, best for so many threads; None takes those of operators."""
        return parts_of_product(rows, self.panels, self.panel_bytes, threads or _usual_threads())

    def product(self, gate: str | None = None) -> StepKernel:
        """The kernel that multiplies by it: `product_arguments` gives what is its own among the arguments.

        Args:
            gate: One of `compiled.blocks.endings.GATES`, where a gate and what it gates are interleaved.
        """
        assert (gate is not None) == self.interleaved, "what is interleaved is gated, and nothing else"
        return step_kernel(
            "blocks.product:block_product",
            arguments.PRODUCT,
            form=self.form,
            gate=gate,
            unpack_from=unpack_from(),
        )

    def product_arguments(self) -> dict[str, int]:
        """``weights``, ``groups``, ``panels`` and ``columns`` of a product."""
        return {
            "weights": self.data.ctypes.data,
            "groups": self.groups,
            "panels": self.panels,
            "columns": self.columns // 2 if self.interleaved else self.columns,
        }

    def rows(self) -> StepKernel:
        """The kernel that gives columns of the matrix as float32 rows: embeddings of tokens."""
        return step_kernel("blocks.rows:block_rows", arguments.ROWS, form=self.form)

    def rows_arguments(self) -> dict[str, int]:
        """``weights``, ``panel_bytes``, ``columns`` and ``depth`` of such rows."""
        return {
            "weights": self.data.ctypes.data,
            "panel_bytes": self.panel_bytes,
            "columns": self.columns,
            "depth": self.depth,
        }

    def dequantized(self) -> np.ndarray:
        """float32 ``[columns, depth]``, column by column as they lie in the panels; for tests, slow."""
        form, blocks = self.form, self.form.blocks(self.depth)
        data = self.data.reshape(self.panels, blocks, form.block_bytes)
        cuts = np.cumsum([PANEL_TILES * form.scale_bytes, PANEL_TILES * form.zero_bytes])
        scales, zeros, codes = np.split(data, cuts, axis=2)
        kind = np.float32 if form.exact else np.float16

        def by_column(values: np.ndarray) -> np.ndarray:
            """``[panels, blocks, columns of a panel, ...]`` with all columns first."""
            return values.swapaxes(1, 2).reshape(self.panels * PANEL_COLUMNS, blocks, -1)

        scale = by_column(np.ascontiguousarray(scales).view(kind).astype(np.float32))
        fields = unpack(codes.reshape(-1, 1), form.bits, form.fields)
        # [panels, blocks, groups, tiles, vectors, lanes, bytes, fields]
        fields = fields.reshape(
            self.panels, blocks, form.groups_per_block, PANEL_TILES, form.vectors, LANES, 4, form.fields
        )
        if form.words:
            fields = fields[..., [0, 2, 1, 3], :]
        # [panels, tiles, lanes, blocks, groups, fields, vectors, bytes]
        values = fields.transpose(0, 3, 5, 1, 2, 7, 4, 6).reshape(len(scale), blocks, form.block)
        values = values.astype(np.float32)
        if form.zeros == "bytes":
            product = (values - by_column(zeros)) * scale
        elif form.zeros == "offsets":
            offset = by_column(np.ascontiguousarray(zeros).view(kind).astype(np.float32))
            product = (values - form.middle) * scale + offset
        else:
            product = (values - form.middle) * scale
        columns = product.reshape(len(scale), -1)[:, : self.depth]
        if self.interleaved:
            tiles = columns.reshape(-1, 2, LANES, self.depth)  # [pairs of tiles, 2, ...]
            half = self.columns // 2
            return np.concatenate([tiles[:, which].reshape(-1, self.depth)[:half] for which in (0, 1)])
        return columns[: self.columns]


def pack(
    matrices: Sequence[BlockMatrix],
    *,
    words: bool = False,
    interleave: bool = False,
    threads: int | None = None,
    allocate: Callable[[int], np.ndarray] = aligned,
) -> PackedBlocks:
    """Pack matrices of one depth and block size.

    Args:
        matrices: Joined side by side, such as query, key and value.
        words: Activations will be int16, for accuracy levels below 4.
        interleave: The two matrices are a gate and what it gates.
        threads: How many pack it; None takes those of operators.
        allocate: Gives memory for the packed matrix: zeros, uint8; `Arena.allocate` where there are many.

    Raises:
        KernelError: The matrices do not fit together, or have bits or blocks that there are no kernels for.
    """
    first = matrices[0]
    _check(matrices, interleave)
    form = _format(matrices, words)
    if not interleave and any(matrix.columns % LANES for matrix in matrices[:-1]):
        matrices = [_joined(matrices)]
    tiles = [-(-matrix.columns // LANES) for matrix in matrices]
    data = allocate(-(-sum(tiles) // PANEL_TILES) * form.panel_bytes(first.depth))
    table, tile = StepTable(), 0
    for index, matrix in enumerate(matrices):
        half = matrix.scales.dtype == np.float16
        held = [
            np.ascontiguousarray(matrix.codes),
            np.ascontiguousarray(matrix.scales if half else _float32(matrix.scales)),
            *([np.ascontiguousarray(_zeros(matrix, form))] if form.zeros != "middle" else []),
        ]
        addresses = [array.ctypes.data for array in held]
        table.keep(*held)
        table.add(
            step_kernel("blocks.packing:pack_blocks", arguments.PACK, form=form, half_scales=half),
            parts=min(tiles[index], _MOST_PARTS),
            codes=addresses[0],
            scales=addresses[1],
            zeros=addresses[2] if len(addresses) > 2 else 0,
            columns=matrix.columns,
            blocks=form.blocks(first.depth),
            zero_stride=-(-form.blocks(first.depth) * form.bits // 8),
            panels=data.ctypes.data,
            first_tile=index if interleave else tile,
            tile_step=len(matrices) if interleave else 1,
        )
        tile += tiles[index]
    counts = table.counts(StepShape(tokens=0, rows=0))
    crew().run(table, counts, np.zeros(HEADER_WORDS, np.int64), threads=threads or _usual_threads())
    return PackedBlocks(data, form, first.depth, sum(matrix.columns for matrix in matrices), interleave)


@cache
def _usual_threads() -> int:
    return default_threads()


def _check(matrices: Sequence[BlockMatrix], interleave: bool) -> None:
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


def _format(matrices: Sequence[BlockMatrix], words: bool) -> BlockFormat:
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
    values = _float32(scales).reshape(-1)
    most = float(np.abs(values).max(initial=0))
    if not most <= _HALF_MOST:
        return False
    if lossless:
        return bool((values.astype(np.float16) == values).all())
    return most == 0 or float(np.dot(values, values) / values.size) ** 0.5 >= _HALF_LEAST_RMS


def _zeros(matrix: BlockMatrix, form: BlockFormat) -> np.ndarray:
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
    return _float32(matrix.zeros).reshape(matrix.columns, blocks)


def _offsets(matrix: BlockMatrix) -> np.ndarray:
    if matrix.zeros is None or matrix.zeros.dtype == np.uint8:
        return np.zeros(1, np.float32)
    middle = np.float32(1 << (matrix.bits - 1))
    return _float32(matrix.scales).reshape(-1) * (middle - _float32(matrix.zeros).reshape(-1))


def _joined(matrices: Sequence[BlockMatrix]) -> BlockMatrix:
    """One matrix of several, where tiles would not begin with a matrix."""
    first, form = matrices[0], _format(matrices, words=False)
    codes = np.concatenate([matrix.codes.reshape(matrix.columns, -1) for matrix in matrices])
    scales = np.concatenate([_float32(matrix.scales).reshape(matrix.columns, -1) for matrix in matrices])
    zeros = None
    if form.zeros != "middle":
        zeros = np.concatenate([_zeros(matrix, form) for matrix in matrices])
    return BlockMatrix(codes, scales, zeros, first.depth, first.bits, first.block)


def _float32(values: np.ndarray) -> np.ndarray:
    return np.asarray(widened(values), np.float32)
