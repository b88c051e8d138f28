"""Right operands of products of bytes, packed once, and the products with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.graph.cpu import byte_kernels
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.byte_layout import PANEL, SIGN, padded_depth
from onnxgen.graph.cpu.placed import Placed, placed
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, workspace

BYTES = frozenset({np.dtype(np.int8), np.dtype(np.uint8)})
"""Element types of the operands."""

_OPERATIONS_PER_S, _BYTES_PER_S, _FLOATS_PER_S = 400e9, 8e9, 1e9
"""Of one thread, roughly: to tell what is worth sharing."""

_BLOCK_ROWS = 96
"""Rows of a part where there are many."""

_FLOATS_OF_A_PART = 16384


@dataclass(frozen=True, slots=True)
class PackedBytes:
    """A matrix as tiles read it (`onnxgen.graph.cpu.byte_layout`).

    Attributes:
        tiles: int8 ``[panels, steps, PANEL, STEP]``.
        sums: int32 ``[panels * PANEL]``: of each column without its zero point.
        zeros: int32 ``[columns]``: zero points.
        depth: Rows of the matrix.
        columns: Its columns.
    """

    tiles: Placed
    sums: Placed
    zeros: Placed
    depth: int
    columns: int

    @classmethod
    def of(cls, matrix: np.ndarray, zero_point: np.ndarray | None) -> PackedBytes:
        """Pack int8 or uint8 ``[depth, columns]``; the zero point holds for all, or one for each column."""
        depth, columns = matrix.shape
        flip = SIGN if matrix.dtype == np.uint8 else 0
        zeros = np.empty(columns, np.int32)
        zeros[:] = -flip
        if zero_point is not None:
            zeros += zero_point.reshape(-1).astype(np.int32)
        panels = -(-columns // PANEL)
        source, zeros = placed(matrix), placed(zeros)
        tiles = placed(aligned(panels * padded_depth(depth) * PANEL))
        sums = placed(np.empty(panels * PANEL, np.int32))
        arguments = (source.address, depth, columns, flip, zeros.address, tiles.address, sums.address)
        _packing().run((arguments,), (panels,), seconds=matrix.size / _BYTES_PER_S)
        return cls(tiles, sums, zeros, depth, columns)


@dataclass(frozen=True, slots=True)
class Left:
    """A left operand.

    Attributes:
        rows: int8 or uint8 ``[rows, depth]``.
        zeros: int32 zero points: one for all, or one for each row.
    """

    rows: np.ndarray
    zeros: Placed


@dataclass(frozen=True, slots=True)
class Scales:
    """What totals are multiplied by, float32.

    Attributes:
        rows: One for all, or one for each row.
        columns: One for each column.
    """

    rows: Placed
    columns: Placed

    @property
    def words(self) -> tuple[int, int, int]:
        """Arguments of kernels."""
        return self.rows.address, _step(self.rows), self.columns.address


class ByteProducts:
    """Products of a node; may be used from several threads."""

    def __init__(self) -> None:
        self._calls: dict[str, NodeCalls] = {}

    def totals(self, left: Left, right: PackedBytes, y: np.ndarray) -> None:
        """``(left - zeros) @ right`` into int32 ``y [rows, columns]`` (C-contiguous), which wraps around."""
        self._multiply("totals", left, right, y, None, ())

    def floats(
        self,
        left: Left,
        right: PackedBytes,
        y: np.ndarray,
        *,
        scales: Scales,
        bias: Placed | None = None,
        addend: Placed | None = None,
    ) -> None:
        """The totals, plus an int32 ``[columns]``, times both scales, plus a float32 ``[columns]``, into float32 ``y``."""
        self._multiply("floats", left, right, y, addend, (*scales.words, _address(bias)))

    def requantized(
        self,
        left: Left,
        right: PackedBytes,
        y: np.ndarray,
        *,
        scales: Scales,
        y_scale: Placed,
        y_zero: Placed,
        addend: Placed | None = None,
    ) -> None:
        """The totals, plus an int32 ``[columns]``, times both scales, quantized by a float32 and an int32 into int8 or uint8 ``y``."""
        low = -SIGN if y.dtype == np.int8 else 0
        self._multiply("bytes", left, right, y, addend, (*scales.words, y_scale.address, y_zero.address, low))

    def dynamic(
        self, left: np.ndarray, right: PackedBytes, y: np.ndarray, *, columns: Placed, bias: Placed | None
    ) -> None:
        """float32 ``left [rows, depth]``, quantized to uint8 by its range, times ``right``, scaled, plus a bias."""
        rows, depth = left.shape
        source = placed(left)
        ranges = max(1, -(-left.size // _FLOATS_OF_A_PART))
        range_at, bytes_at, sums_at, scale_at, zero_at = workspace().addresses(
            8 * ranges, rows * padded_depth(depth), 4 * rows, 4, 4
        )
        blocks, parts, seconds = division(rows, depth, right.columns)
        found = source.address, left.size, range_at, ranges
        quantized = source.address, rows, depth, range_at, ranges, bytes_at, sums_at, scale_at, zero_at
        product = (
            *(bytes_at, sums_at, zero_at, 0, 0, rows, depth, right.tiles.address, right.sums.address),
            *(right.zeros.address, right.columns, 0, 0, blocks, y.ctypes.data),
            *(scale_at, 0, columns.address, _address(bias)),
        )
        kernels = byte_kernels.VALUE_RANGE, byte_kernels.QUANTIZE, byte_kernels.product("floats")
        self._calls_of("dynamic", kernels).run(
            (found, quantized, product),
            (ranges, min(rows, ranges), parts),
            seconds=seconds + left.size / _FLOATS_PER_S,
        )

    def _multiply(
        self,
        result: str,
        left: Left,
        right: PackedBytes,
        y: np.ndarray,
        addend: Placed | None,
        ends: tuple[int, ...],
    ) -> None:
        rows, depth = left.rows.shape
        source = placed(left.rows)
        flip = SIGN if left.rows.dtype == np.int8 else 0
        bytes_at, sums_at = workspace().addresses(rows * padded_depth(depth), 4 * rows)
        blocks, parts, seconds = division(rows, depth, right.columns)
        product = (
            *(bytes_at, sums_at, left.zeros.address, _step(left.zeros), flip, rows, depth),
            *(right.tiles.address, right.sums.address, right.zeros.address, right.columns),
            *(_address(addend), 0, blocks, y.ctypes.data, *ends),
        )
        self._calls_of(result, (byte_kernels.ARRANGE, byte_kernels.product(result))).run(
            ((source.address, rows, depth, flip, bytes_at, sums_at), product),
            (min(rows, max(1, left.rows.size // _FLOATS_OF_A_PART)), parts),
            seconds=seconds,
        )

    def _calls_of(self, name: str, kernels: tuple[StepKernel, ...]) -> NodeCalls:
        if name not in self._calls:
            self._calls[name] = NodeCalls(*kernels)
        return self._calls[name]


def _step(parameter: Placed) -> int:
    """Bytes from one row's parameter to the next one's."""
    return 4 if parameter.array.size > 1 else 0


def _address(parameter: Placed | None) -> int:
    return 0 if parameter is None else parameter.address


def division(rows: int, depth: int, columns: int) -> tuple[int, int, float]:
    """Blocks of rows, parts of the product, and roughly its seconds on one thread."""
    blocks, panels = -(-rows // _BLOCK_ROWS), -(-columns // PANEL)
    operations, read = 2 * rows * depth * columns, depth * columns
    return blocks, blocks * panels, max(operations / _OPERATIONS_PER_S, read / 30e9)


@cache
def _packing() -> NodeCalls:
    return NodeCalls(byte_kernels.pack())
