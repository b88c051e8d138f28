"""Matrix products of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.packed_bytes import BYTES, Scales
from onnxgen.graph.cpu.quantization import dynamic_parameters, quantize, requantize
from onnxgen.graph.cpu.quantized_product import (
    QuantizedProduct,
    as_rows,
    both_scales,
    of_columns,
)
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

Computation = Callable[..., np.ndarray]
"""``compute(y, *inputs)``: the result, in ``y`` where that is given; else in new memory, or in an array of its own."""


def _kernel(compute: Computation) -> Kernel:
    def run(*inputs: Any) -> np.ndarray:
        return compute(None, *inputs)

    def into(*inputs_and_y: Any) -> None:
        *inputs, y = inputs_and_y
        result = compute(y, *inputs)
        if result is not y:
            y[...] = result

    return Kernel(run, into)


def _empty(y: np.ndarray | None, a: np.ndarray, columns: int, dtype: Any) -> np.ndarray:
    return np.empty((*a.shape[:-1], columns), dtype) if y is None else y


@TABLE.operator("MatMulInteger16", 1, domain=MICROSOFT)
@TABLE.operator("MatMulInteger", 10)
def matmul_integer(node: NodeSpec) -> Kernel:
    """``(a - a_zero_point) @ (b - b_zero_point)`` in int32."""
    product = QuantizedProduct(node, 1, 3)

    def compute(
        y: np.ndarray | None,
        a: np.ndarray,
        b: np.ndarray,
        a_zero_point: np.ndarray | None = None,
        b_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        return product(a, b, a_zero_point, b_zero_point, y, a_zero_index=2)

    return _kernel(compute)


@TABLE.operator("QLinearMatMul", 10, 21)
def qlinear_matmul(node: NodeSpec) -> Kernel:
    """The product of quantized tensors, quantized again."""
    product = QuantizedProduct(node, 3, 5)

    def compute(
        y: np.ndarray | None,
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray,
    ) -> np.ndarray:
        tiled = product.tiled(a, b, b_zero_point) if y_zero_point.dtype in BYTES else None
        if tiled is not None and y_scale.size == y_zero_point.size == 1:
            products, right = tiled
            y = _empty(y, a, right.columns, y_zero_point.dtype)
            products.requantized(
                product.left(a, 2, a_zero_point),
                right,
                as_rows(y),
                scales=product.scales(a, (1, a_scale), right, (4, b_scale)),
                y_scale=product.parameter(6, y_scale, lambda scale: scale.astype(np.float32)),
                y_zero=product.parameter(7, y_zero_point, lambda zero: zero.astype(np.int32)),
            )
            return y
        scale = both_scales(a_scale, b_scale) / y_scale.astype(np.float32)
        accumulated = product(a, b, a_zero_point, b_zero_point).astype(np.float32)
        return requantize(accumulated, scale, y_zero_point, y_zero_point.dtype)

    return _kernel(compute)


@TABLE.operator("MatMulIntegerToFloat", 1, domain=MICROSOFT)
def matmul_integer_to_float(node: NodeSpec) -> Kernel:
    """``MatMulInteger`` times both scales, plus a bias."""
    product = QuantizedProduct(node, 1, 5)

    def compute(
        y: np.ndarray | None,
        a: np.ndarray,
        b: np.ndarray,
        a_scale: np.ndarray,
        b_scale: np.ndarray,
        a_zero_point: np.ndarray | None = None,
        b_zero_point: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        tiled = product.tiled(a, b, b_zero_point)
        if tiled is None:
            scale = both_scales(a_scale, b_scale)
            wide = product(a, b, a_zero_point, b_zero_point).astype(np.float32) * scale
            wide = wide if bias is None else wide + bias.astype(np.float32)
            return wide.astype(a_scale.dtype, copy=False)
        products, right = tiled
        result = _empty(y if a_scale.dtype == np.float32 else None, a, right.columns, np.float32)
        products.floats(
            product.left(a, 4, a_zero_point),
            right,
            as_rows(result),
            scales=product.scales(a, (2, a_scale), right, (3, b_scale)),
            bias=product.by_column(6, bias, right.columns),
        )
        return result.astype(a_scale.dtype, copy=False)

    return _kernel(compute)


@TABLE.operator("DynamicQuantizeMatMul", 1, domain=MICROSOFT)
def dynamic_quantize_matmul(node: NodeSpec) -> Kernel:
    """A float tensor, quantized to uint8 by its range, times a quantized one; float result, plus a bias."""
    product = QuantizedProduct(node, 1, 3)

    def compute(
        y: np.ndarray | None,
        a: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> np.ndarray:
        tiled = product.tiled(a, b, b_zero_point)
        if tiled is not None:
            products, right = tiled
            y = _empty(y, a, right.columns, np.float32)
            products.dynamic(
                as_rows(a),
                right,
                as_rows(y),
                columns=product.parameter(2, b_scale, lambda scale: of_columns(scale, right.columns)),
                bias=product.by_column(4, bias, right.columns),
            )
            return y
        a_scale, a_zero_point = dynamic_parameters(a)
        quantized = quantize(a, a_scale, a_zero_point, np.dtype(np.uint8))
        scale = both_scales(a_scale, b_scale)
        wide = product(quantized, b, a_zero_point, b_zero_point).astype(np.float32) * scale
        return wide if bias is None else wide + bias

    return _kernel(compute)


@TABLE.operator("QGemm", 1, domain=MICROSOFT)
def qgemm(node: NodeSpec) -> Kernel:
    """``alpha * a' @ b' + c`` of quantized tensors; float32 where the node gives no output scale."""
    alpha, trans_a = np.float32(node.attr("alpha", 1.0)), bool(node.attr("transA", 0))
    product = QuantizedProduct(node, 3, 5, transposed=bool(node.attr("transB", 0)))

    def compute(
        y: np.ndarray | None,
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
        left = a.T if trans_a else a
        tiled = product.tiled(left, b, b_zero_point)
        if tiled is None or (c is not None and c.size != 1 and c.shape[:-1] not in ((), (1,))):
            sums = product(left, b, a_zero_point.reshape(()), b_zero_point)
            sums, scale = sums if c is None else sums + c, alpha * a_scale.reshape(1) * b_scale
            if y_scale is None or y_zero_point is None:
                return (sums * scale).astype(np.float32)
            scale = scale / y_scale.reshape(())
            return requantize(sums.astype(np.float32), scale, y_zero_point.reshape(()), y_zero_point.dtype)
        products, right = tiled
        operands = product.left(left, 2, a_zero_point), right
        scales = Scales(
            product.parameter(1, a_scale, lambda scale: alpha * scale.reshape(1)),
            product.parameter(4, b_scale, lambda scale: of_columns(scale, right.columns)),
        )
        addend = product.by_column(6, c, right.columns, np.int32)
        if y_scale is None or y_zero_point is None:
            y = _empty(y, left, right.columns, np.float32)
            products.floats(*operands, y, scales=scales, addend=addend)
            return y
        y = _empty(y, left, right.columns, y_zero_point.dtype)
        products.requantized(
            *operands,
            y,
            scales=scales,
            y_scale=product.parameter(7, y_scale, lambda scale: scale.astype(np.float32)),
            y_zero=product.parameter(8, y_zero_point, lambda zero: zero.astype(np.int32)),
            addend=addend,
        )
        return y

    return _kernel(compute)
