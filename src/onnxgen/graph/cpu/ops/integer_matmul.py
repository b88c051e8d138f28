"""Matrix products of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.integer_products import integer_matmul, peak, shifted
from onnxgen.graph.cpu.quantization import dynamic_parameters, is_float, quantize, requantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

Product = Callable[[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None], np.ndarray]


def quantized_product(node: NodeSpec, b: int, b_zero_point: int) -> Product:
    """A function ``(a, b, a_zero_point, b_zero_point)`` that returns ``(a - a_zero) @ (b - b_zero)``: int32, or float32 for float8 operands.

    ``b`` and ``b_zero_point`` are the input indices of the right operand; where it is constant, its form for BLAS is
    made once.
    """
    packed: tuple[np.ndarray, int] | None = None
    if b in node.constants and (not node.has_input(b_zero_point) or b_zero_point in node.constants):
        packed = _right(node.constants[b], node.constants.get(b_zero_point))

    def product(
        a: np.ndarray, b: np.ndarray, a_zero_point: np.ndarray | None, b_zero_point: np.ndarray | None
    ) -> np.ndarray:
        right, right_peak = packed or _right(b, b_zero_point)
        zeros = None if a_zero_point is None else _by_row(a_zero_point)
        left = shifted(a, zeros)
        if is_float(a.dtype):
            return left @ right
        return integer_matmul(left, right, a_peak=peak(a.dtype, zeros), b_peak=right_peak)

    return product


def _right(b: np.ndarray, zero_point: np.ndarray | None) -> tuple[np.ndarray, int]:
    right = shifted(b, None if zero_point is None else _by_column(zero_point))
    return right, 0 if is_float(b.dtype) else peak(b.dtype, zero_point)


def _by_row(parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point of the left operand: one for all, or one for each row."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if parameter.ndim == 1 else parameter


def _by_column(parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point of the right operand: one for all, or one for each column."""
    return parameter.reshape(()) if parameter.size == 1 else parameter


def _both(a_scale: np.ndarray, b_scale: np.ndarray) -> np.ndarray:
    """The scale of a product, float32."""
    return np.asarray(_by_row(a_scale).astype(np.float32) * _by_column(b_scale).astype(np.float32))


@TABLE.operator("MatMulInteger16", 1, domain=MICROSOFT)
@TABLE.operator("MatMulInteger", 10)
def matmul_integer(node: NodeSpec) -> Kernel:
    """``(a - a_zero_point) @ (b - b_zero_point)`` in int32."""
    product = quantized_product(node, 1, 3)

    def run(
        a: np.ndarray,
        b: np.ndarray,
        a_zero_point: np.ndarray | None = None,
        b_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        return product(a, b, a_zero_point, b_zero_point)

    return Kernel(run)


@TABLE.operator("QLinearMatMul", 10, 21)
def qlinear_matmul(node: NodeSpec) -> Kernel:
    """The product of quantized tensors, quantized again."""
    product = quantized_product(node, 3, 5)

    def run(
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray,
    ) -> np.ndarray:
        scale = _both(a_scale, b_scale) / y_scale.astype(np.float32)
        accumulated = product(a, b, a_zero_point, b_zero_point).astype(np.float32)
        return requantize(accumulated, scale, y_zero_point, y_zero_point.dtype)

    return Kernel(run)


@TABLE.operator("MatMulIntegerToFloat", 1, domain=MICROSOFT)
def matmul_integer_to_float(node: NodeSpec) -> Kernel:
    """``MatMulInteger`` times both scales, plus a bias."""
    product = quantized_product(node, 1, 5)

    def run(
        a: np.ndarray,
        b: np.ndarray,
        a_scale: np.ndarray,
        b_scale: np.ndarray,
        a_zero_point: np.ndarray | None = None,
        b_zero_point: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        y = product(a, b, a_zero_point, b_zero_point).astype(np.float32) * _both(a_scale, b_scale)
        return (y if bias is None else y + bias.astype(np.float32)).astype(a_scale.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("DynamicQuantizeMatMul", 1, domain=MICROSOFT)
def dynamic_quantize_matmul(node: NodeSpec) -> Kernel:
    """A float tensor, quantized to uint8 by its range, times a quantized one; float result, plus a bias."""
    product = quantized_product(node, 1, 3)

    def run(
        a: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        a_scale, a_zero_point = dynamic_parameters(a)
        quantized = quantize(a, a_scale, a_zero_point, np.dtype(np.uint8))
        y = product(quantized, b, a_zero_point, b_zero_point).astype(np.float32) * _both(a_scale, b_scale)
        return y if bias is None else y + bias

    return Kernel(run)


@TABLE.operator("QGemm", 1, domain=MICROSOFT)
def qgemm(node: NodeSpec) -> Kernel:
    """``alpha * a' @ b' + c`` of quantized tensors; float32 where the node gives no output scale."""
    alpha = np.float32(node.attr("alpha", 1.0))
    trans_a, trans_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))

    def run(
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray,
        c: np.ndarray | None = None,
        y_scale: np.ndarray | None = None,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        left, right = a.T if trans_a else a, b.T if trans_b else b
        sums = integer_matmul(
            shifted(left, a_zero_point.reshape(())),
            shifted(right, b_zero_point),
            a_peak=peak(a.dtype, a_zero_point),
            b_peak=peak(b.dtype, b_zero_point),
        )
        if c is not None:
            sums = sums + c
        scale = alpha * a_scale.reshape(()) * b_scale
        if y_scale is None or y_zero_point is None:
            return (sums * scale).astype(np.float32)
        return requantize(
            sums.astype(np.float32), scale / y_scale.reshape(()), y_zero_point.reshape(()), y_zero_point.dtype
        )

    return Kernel(run)
