"""The product in the middle of operators on quantized matrices, whatever their types and shapes."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.integer_products import integer_matmul, peak, shifted
from onnxgen.graph.cpu.packed_bytes import BYTES, ByteProducts, PackedBytes
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
        self._kept: PackedBytes | None = None
        zeros = node.constants.get(b_zero_point)
        if b in node.constants and (zeros is not None or not node.has_input(b_zero_point)):
            self._kept = self._packed(node.constants[b], zeros)

    def tiled(
        self, a: np.ndarray, b: np.ndarray, b_zero_point: np.ndarray | None
    ) -> tuple[ByteProducts, PackedBytes] | None:
        """What multiplies the rows of ``a`` in tiles; None where types or shapes are others."""
        if a.dtype not in BYTES | {np.dtype(np.float32)} or a.ndim < 2 or not a.size:
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
    ) -> np.ndarray:
        """The product in int32, or in float32 for float8 operands; in ``y`` where that is given, or in an array of its own."""
        tiled = self.tiled(a, b, b_zero_point)
        if tiled is not None:
            products, right = tiled
            if y is None:
                y = np.empty((*a.shape[:-1], right.columns), np.int32)
            products.totals(as_rows(a), of_rows(a_zero_point, a), right, as_rows(y))
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


def of_rows(parameter: np.ndarray | None, a: np.ndarray) -> np.ndarray:
    """A scale or zero point of ``a``: one for all (0 where it is left out), or one for each row of `as_rows`."""
    if parameter is None:
        return _ZERO
    if parameter.size == 1:
        return parameter.reshape(1)
    return np.broadcast_to(by_row(parameter), (*a.shape[:-1], 1)).reshape(-1)


def of_columns(parameter: np.ndarray, columns: int, dtype: type = np.float32) -> np.ndarray:
    """One value for each column, C-contiguous, of one for all or for each."""
    if parameter.size == columns and parameter.dtype == dtype:
        return np.ascontiguousarray(parameter).reshape(-1)
    y = np.empty(columns, dtype)
    y[:] = parameter.reshape(-1)
    return y


_ZERO = np.zeros(1, np.int32)


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
