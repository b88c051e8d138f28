"""Right operands of products of bytes, packed once, and the products with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.graph.cpu import byte_kernels
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.byte_layout import PANEL, SIGN, padded_depth
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

    tiles: np.ndarray
    sums: np.ndarray
    zeros: np.ndarray
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
        panels, source = -(-columns // PANEL), np.ascontiguousarray(matrix)
        tiles, sums = aligned(panels * padded_depth(depth) * PANEL), np.empty(panels * PANEL, np.int32)
        arguments = (source, depth, columns, flip, zeros, tiles, sums)
        _packing().run([_words(arguments)], [panels], seconds=matrix.size / _BYTES_PER_S)
        return cls(tiles, sums, zeros, depth, columns)


@dataclass(frozen=True, slots=True)
class Scales:
    """What totals are multiplied by, float32.

    Attributes:
        rows: One for all, or one for each row.
        columns: One for each column.
    """

    rows: np.ndarray
    columns: np.ndarray


class ByteProducts:
    """Products of a node; may be used from several threads."""

    def __init__(self) -> None:
        self._calls: dict[str, NodeCalls] = {}

    def totals(
        self,
        left: np.ndarray,
        left_zeros: np.ndarray,
        right: PackedBytes,
        y: np.ndarray,
        addend: np.ndarray | None = None,
    ) -> None:
        """``(left - left_zeros) @ right + addend`` in int32, which wraps around.

        Args:
            left: int8 or uint8 ``[rows, depth]``.
            left_zeros: Its zero point: one for all, or one for each row.
            right: The right operand.
            y: int32 ``[rows, columns]``, C-contiguous.
            addend: int32 ``[columns]``.
        """
        self._multiply("totals", left, left_zeros, right, y, addend, ())

    def floats(
        self,
        left: np.ndarray,
        left_zeros: np.ndarray,
        right: PackedBytes,
        y: np.ndarray,
        *,
        scales: Scales,
        bias: np.ndarray | None = None,
        addend: np.ndarray | None = None,
    ) -> None:
        """The totals times both scales, plus a float32 bias ``[columns]``, into float32 ``y``."""
        step = 4 if scales.rows.size > 1 else 0
        self._multiply(
            "floats", left, left_zeros, right, y, addend, (scales.rows, step, scales.columns, bias)
        )

    def requantized(
        self,
        left: np.ndarray,
        left_zeros: np.ndarray,
        right: PackedBytes,
        y: np.ndarray,
        *,
        scales: Scales,
        y_scale: np.ndarray,
        y_zero: np.ndarray,
        addend: np.ndarray | None = None,
    ) -> None:
        """The totals times both scales, quantized by ``y_scale`` (float32) and ``y_zero`` into int8 or uint8 ``y``."""
        step, low = 4 if scales.rows.size > 1 else 0, -SIGN if y.dtype == np.int8 else 0
        ends = (scales.rows, step, scales.columns, y_scale, y_zero.astype(np.int32), low)
        self._multiply("bytes", left, left_zeros, right, y, addend, ends)

    def dynamic(
        self,
        left: np.ndarray,
        right: PackedBytes,
        y: np.ndarray,
        *,
        column_scales: np.ndarray,
        bias: np.ndarray | None,
    ) -> None:
        """float32 ``left [rows, depth]``, quantized to uint8 by its range, times ``right``, scaled, plus a bias."""
        rows, depth = left.shape
        source = np.ascontiguousarray(left)
        ranges = max(1, -(-left.size // _FLOATS_OF_A_PART))
        sizes = (8 * ranges, rows * padded_depth(depth), 4 * rows, 4, 4)
        range_at, bytes_at, sums_at, scale_at, zero_at = workspace().addresses(*sizes)
        blocks, parts, seconds = _division(rows, depth, right.columns)
        found = (source, left.size, range_at, ranges)
        quantized = (source, rows, depth, range_at, ranges, bytes_at, sums_at, scale_at, zero_at)
        product = (
            *(bytes_at, sums_at, zero_at, 0, rows, depth),
            *(right.tiles, right.sums, right.zeros, right.columns, 0, blocks, y),
            *(scale_at, 0, column_scales, bias),
        )
        calls = self._calls_of(
            "dynamic", byte_kernels.VALUE_RANGE, byte_kernels.QUANTIZE, byte_kernels.product("floats")
        )
        calls.run(
            [_words(found), _words(quantized), _words(product)],
            [ranges, min(rows, ranges), parts],
            seconds=seconds + left.size / _FLOATS_PER_S,
        )

    def _multiply(
        self,
        result: str,
        left: np.ndarray,
        left_zeros: np.ndarray,
        right: PackedBytes,
        y: np.ndarray,
        addend: np.ndarray | None,
        ends: tuple[np.ndarray | int | None, ...],
    ) -> None:
        rows, depth = left.shape
        source = np.ascontiguousarray(left)
        flip = SIGN if left.dtype == np.int8 else 0
        zeros = left_zeros.reshape(-1).astype(np.int32) + flip
        bytes_at, sums_at = workspace().addresses(rows * padded_depth(depth), 4 * rows)
        blocks, parts, seconds = _division(rows, depth, right.columns)
        arranged = (source, rows, depth, flip, bytes_at, sums_at)
        product = (
            *(bytes_at, sums_at, zeros, 4 if zeros.size > 1 else 0, rows, depth),
            *(right.tiles, right.sums, right.zeros, right.columns, addend, blocks, y),
            *ends,
        )
        calls = self._calls_of(result, byte_kernels.ARRANGE, byte_kernels.product(result))
        calls.run(
            [_words(arranged), _words(product)],
            [min(rows, max(1, left.size // _FLOATS_OF_A_PART)), parts],
            seconds=seconds,
        )

    def _calls_of(self, name: str, *kernels: byte_kernels.StepKernel) -> NodeCalls:
        if name not in self._calls:
            self._calls[name] = NodeCalls(*kernels)
        return self._calls[name]


def _division(rows: int, depth: int, columns: int) -> tuple[int, int, float]:
    """Blocks of rows, parts of the product, and roughly its seconds on one thread."""
    blocks, panels = -(-rows // _BLOCK_ROWS), -(-columns // PANEL)
    operations, read = 2 * rows * depth * columns, depth * columns
    return blocks, blocks * panels, max(operations / _OPERATIONS_PER_S, read / 30e9)


def _words(values: Sequence[np.ndarray | int | None]) -> list[int]:
    """Arguments of a kernel: arrays by their addresses, None as 0."""
    return [
        value if isinstance(value, int) else 0 if value is None else value.ctypes.data for value in values
    ]


@cache
def _packing() -> NodeCalls:
    return NodeCalls(byte_kernels.PACK)
