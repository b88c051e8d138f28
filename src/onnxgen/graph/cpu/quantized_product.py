"""The product in the middle of operators on quantized matrices, whatever their types and shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from onnxgen.graph.cpu.integer_products import integer_matmul, peak, shifted
from onnxgen.graph.cpu.packed_bytes import BYTES, ByteProducts, Left, PackedBytes, Scales
from onnxgen.graph.cpu.placed import Placed, placed
from onnxgen.graph.cpu.quantization import is_float
from onnxgen.graph.ep.node import NodeSpec


class QuantizedProduct:
    """``(a - a_zero) @ (b - b_zero)`` of a node: bytes in compiled tiles, other types by BLAS where that is exact.

    Where the right operand is constant it is packed once.

    Args:
        node: The node.
        b: Input index of its right operand.
        b_zero_point: Input index of that one's zero point.
        transposed: Whether the product is with ``b.T``.
    """

    def __init__(self, node: NodeSpec, b: int, b_zero_point: int, *, transposed: bool = False) -> None:
        self._products, self._transposed = ByteProducts(), transposed
        self._constants, self._made = frozenset(node.constants), dict[int, Placed]()
        self._kept: PackedBytes | None = None
        zeros = node.constants.get(b_zero_point)
        if b in node.constants and (zeros is not None or not node.has_input(b_zero_point)):
            self._kept = self._packed(node.constants[b], zeros)

    def parameter(self, index: int, array: np.ndarray, make: Callable[[np.ndarray], np.ndarray]) -> Placed:
        """A scale or zero point in the form that kernels take; made once where the input of that index is constant."""
        if index not in self._constants:
            return placed(make(array))
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = placed(make(array))
        return found

    def left(self, a: np.ndarray, index: int, zero_point: np.ndarray | None) -> Left:
        """The left operand with the zero point that is the input of that index."""
        if zero_point is None:
            return Left(as_rows(a), _zero())
        return Left(as_rows(a), self.parameter(index, zero_point, lambda zero: of_rows(zero, a, np.int32)))

    def scales(
        self, a: np.ndarray, left: tuple[int, np.ndarray], b: PackedBytes, right: tuple[int, np.ndarray]
    ) -> Scales:
        """Scales of both operands, each with the index of its input."""
        return Scales(
            self.parameter(*left, lambda scale: of_rows(scale, a)),
            self.parameter(*right, lambda scale: of_columns(scale, b.columns)),
        )

    def by_column(
        self, index: int, array: np.ndarray | None, columns: int, dtype: type = np.float32
    ) -> Placed | None:
        """A number for each column, None where the input is left out."""
        if array is None:
            return None
        return self.parameter(index, array, lambda given: of_columns(given, columns, dtype))

    def tiled(
        self, a: np.ndarray, b: np.ndarray, b_zero_point: np.ndarray | None
    ) -> tuple[ByteProducts, PackedBytes] | None:
        """What multiplies the rows of ``a`` in tiles; None where types or shapes are others."""
        if a.dtype not in _TILED or a.ndim < 2 or not a.size:
            return None
        packed = self._kept or self._packed(b, b_zero_point)
        return None if packed is None or a.shape[-1] != packed.depth else (self._products, packed)

    def __call__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        a_zero_point: np.ndarray | None,
        b_zero_point: np.ndarray | None,
        y: np.ndarray | None = None,
        *,
        a_zero_index: int = -1,
    ) -> np.ndarray:
        """The product in int32, or in float32 for float8 operands; in ``y`` where that is given, or in an array of its own."""
        tiled = self.tiled(a, b, b_zero_point)
        if tiled is not None:
            products, right = tiled
            if y is None:
                y = np.empty((*a.shape[:-1], right.columns), np.int32)
            products.totals(self.left(a, a_zero_index, a_zero_point), right, as_rows(y))
            return y
        zeros = None if a_zero_point is None else by_row(a_zero_point)
        left, right = shifted(a, zeros), self._shifted(b, b_zero_point)
        if is_float(a.dtype):
            return left @ right
        b_peak = peak(b.dtype, b_zero_point)
        return integer_matmul(left, right, a_peak=peak(a.dtype, zeros), b_peak=b_peak)

    def _packed(self, b: np.ndarray, zero_point: np.ndarray | None) -> PackedBytes | None:
        if b.dtype not in BYTES or b.ndim != 2 or not b.size:
            return None
        return PackedBytes.of(b.T if self._transposed else b, zero_point)

    def _shifted(self, b: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
        return shifted(b.T if self._transposed else b, None if zero_point is None else by_column(zero_point))


def as_rows(a: np.ndarray) -> np.ndarray:
    """``[..., depth]`` as ``[rows, depth]``."""
    return a if a.ndim == 2 else a.reshape(-1, a.shape[-1])


def of_rows(parameter: np.ndarray, a: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """A scale or zero point of ``a``: one for all, or one for each row of `as_rows`."""
    if parameter.size == 1:
        return parameter.reshape(1).astype(dtype)
    return np.broadcast_to(by_row(parameter), (*a.shape[:-1], 1)).reshape(-1).astype(dtype)


def of_columns(parameter: np.ndarray, columns: int, dtype: type = np.float32) -> np.ndarray:
    """One value for each column, C-contiguous, of one for all or for each."""
    if parameter.size == columns and parameter.dtype == dtype:
        return np.ascontiguousarray(parameter).reshape(-1)
    y = np.empty(columns, dtype)
    y[:] = parameter.reshape(-1)
    return y


_TILED = BYTES | {np.dtype(np.float32)}
"""Types of left operands; float32 is quantized on the way."""


@cache
def _zero() -> Placed:
    return placed(np.zeros(1, np.int32))


def by_row(parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point of the left operand: one for all, or one for each row."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def by_column(parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point of the right operand: one for all, or one for each column."""
    return parameter.reshape(()) if parameter.size == 1 else parameter


def both_scales(a_scale: np.ndarray, b_scale: np.ndarray) -> np.ndarray:
    """The scale of a product, float32."""
    return np.asarray(by_row(a_scale).astype(np.float32) * by_column(b_scale).astype(np.float32))
