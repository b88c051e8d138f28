"""Operators of ``com.microsoft`` on 8-bit tensors: dequantize, compute in float32, quantize.

Each tensor comes with its scale and zero point (None for 0), which hold for the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.activation_functions import leaky_relu, sigmoid
from onnxgen.graph.cpu.ops.pooling import average, max_pool, reduce_windows
from onnxgen.graph.cpu.quantization import dequantize, quantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import WindowSpec
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _real(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None) -> np.ndarray:
    return dequantize(x, scale.reshape(()), None if zero_point is None else zero_point.reshape(()))


def _quantized(
    y: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None, dtype: np.dtype
) -> np.ndarray:
    zeros = None if zero_point is None else zero_point.reshape(())
    return np.ascontiguousarray(quantize(y, scale.reshape(()), zeros, dtype))


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    def run(
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray | None,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        return _quantized(function(_real(x, x_scale, x_zero_point)), y_scale, y_zero_point, x.dtype)

    return Kernel(run)


def _binary(ufunc: np.ufunc) -> Kernel:
    def run(
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray | None,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray | None,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        y = ufunc(_real(a, a_scale, a_zero_point), _real(b, b_scale, b_zero_point))
        return _quantized(np.asarray(y), y_scale, y_zero_point, a.dtype)

    return Kernel(run)


@TABLE.operator("QLinearAdd", 1, domain=MICROSOFT)
def qlinear_add(node: NodeSpec) -> Kernel:
    """The sum."""
    return _binary(np.add)


@TABLE.operator("QLinearMul", 1, domain=MICROSOFT)
def qlinear_mul(node: NodeSpec) -> Kernel:
    """The product."""
    return _binary(np.multiply)


@TABLE.operator("QLinearSigmoid", 1, domain=MICROSOFT)
def qlinear_sigmoid(node: NodeSpec) -> Kernel:
    """``1 / (1 + exp(-x))``."""
    return _unary(sigmoid)


@TABLE.operator("QLinearLeakyRelu", 1, domain=MICROSOFT)
def qlinear_leaky_relu(node: NodeSpec) -> Kernel:
    """``x``, times ``alpha`` below 0."""
    alpha: float = node.attr("alpha", 0.01)
    return _unary(lambda x: leaky_relu(x, alpha))


@TABLE.operator("QLinearSoftmax", 1, domain=MICROSOFT)
def qlinear_softmax(node: NodeSpec) -> Kernel:
    """Softmax along an axis; from ``axis`` to the end where ``opset`` is below 13."""
    before_13 = node.attr("opset", 13) < 13
    axis = node.attr("axis", 1 if before_13 else -1)

    def softmax(x: np.ndarray) -> np.ndarray:
        first = axis % x.ndim
        axes = tuple(range(first, x.ndim)) if before_13 else (first,)
        powers = np.exp(x - x.max(axes, keepdims=True))
        return powers / powers.sum(axes, keepdims=True)

    return _unary(softmax)


@TABLE.operator("QLinearReduceMean", 1, domain=MICROSOFT)
def qlinear_reduce_mean(node: NodeSpec) -> Kernel:
    """The mean over ``axes``, or over all."""
    axes, keepdims = node.attr("axes") or None, bool(node.attr("keepdims", 1))
    return _unary(lambda x: np.asarray(x.mean(axes, keepdims=keepdims)))


@TABLE.operator("QLinearAveragePool", 1, domain=MICROSOFT)
def qlinear_average_pool(node: NodeSpec) -> Kernel:
    """The mean of each window; with ``count_include_pad`` every window has as many elements as the kernel.

    That differs from ``AveragePool`` where ``ceil_mode`` lets a window reach beyond the padding.
    """
    spec, include_pads = WindowSpec.of(node, partial=True), bool(node.attr("count_include_pad", 0))
    last = bool(node.attr("channels_last", 0))

    def pool(x: np.ndarray) -> np.ndarray:
        planes = np.moveaxis(x, -1, 1) if last else x
        axes = spec.axes(planes.shape[2:])
        if include_pads:
            y = reduce_windows(planes, axes, np.add, 0) / np.float32(math.prod(axis.kernel for axis in axes))
        else:
            y = average(planes, axes, include_pads=False)
        return np.moveaxis(y, 1, -1) if last else y

    return _unary(pool)


@TABLE.operator("QLinearGlobalAveragePool", 1, domain=MICROSOFT)
def qlinear_global_average_pool(node: NodeSpec) -> Kernel:
    """The mean over all spatial axes."""
    last = bool(node.attr("channels_last", 0))

    def pool(x: np.ndarray) -> np.ndarray:
        axes = tuple(range(1, x.ndim - 1)) if last else tuple(range(2, x.ndim))
        return x.mean(axes, keepdims=True)

    return _unary(pool)


@TABLE.operator("QLinearConcat", 1, domain=MICROSOFT)
def qlinear_concat(node: NodeSpec) -> Kernel:
    """Tensors, each with its scale and zero point, joined along ``axis`` in one scale."""
    axis = node.attr("axis")

    def run(y_scale: np.ndarray, y_zero_point: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
        parts = zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
        return np.concatenate(
            [_quantized(_real(*part), y_scale, y_zero_point, y_zero_point.dtype) for part in parts], axis
        )

    return Kernel(run)


@TABLE.operator("QLinearWhere", 1, domain=MICROSOFT)
def qlinear_where(node: NodeSpec) -> Kernel:
    """Elements of ``x`` where the condition holds, else of ``y``."""

    def run(
        condition: np.ndarray,
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray | None,
        y: np.ndarray,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None,
        z_scale: np.ndarray,
        z_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        z = np.where(condition, _real(x, x_scale, x_zero_point), _real(y, y_scale, y_zero_point))
        return _quantized(z, z_scale, z_zero_point, x.dtype)

    return Kernel(run)


@TABLE.operator("MulInteger", 1, domain=MICROSOFT)
def mul_integer(node: NodeSpec) -> Kernel:
    """``(a - a_zero_point) * (b - b_zero_point)`` in int32."""

    def run(
        a: np.ndarray, a_zero_point: np.ndarray | None, b: np.ndarray, b_zero_point: np.ndarray | None = None
    ) -> np.ndarray:
        left, right = (
            x.astype(np.int32) - (0 if zero is None else zero.reshape(()).astype(np.int32))
            for x, zero in ((a, a_zero_point), (b, b_zero_point))
        )
        return np.asarray(left * right)

    return Kernel(run)


@TABLE.operator("NhwcMaxPool", 1, domain=MICROSOFT)
def nhwc_max_pool(node: NodeSpec) -> Kernel:
    """The largest element of each window of ``[batch, *size, channels]``."""
    pool = max_pool(node).run

    def run(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(pool(np.moveaxis(x, -1, 1)), 1, -1))

    return Kernel(run)
