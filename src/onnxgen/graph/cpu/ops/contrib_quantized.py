"""Operators of ``com.microsoft`` on 8-bit tensors: dequantize, compute in float32, quantize.

Each tensor comes with its scale and zero point (None for 0), which hold for the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from onnxgen.graph.cpu.activations import leaky_relu, sigmoid
from onnxgen.graph.cpu.indexing import checked_axis
from onnxgen.graph.cpu.quantization import dequantize, quantize, requantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import Axis, WindowSpec, out_shape
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


def _only(parameter: np.ndarray | None) -> np.float32:
    """A scale, or a zero point (0 where it is left out), as one number."""
    return np.float32(0 if parameter is None else parameter.reshape(())[()])


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


@TABLE.operator("QLinearAdd", 1, domain=MICROSOFT)
def qlinear_add(node: NodeSpec) -> Kernel:
    """The sum: quotients of scales times integers, to which all zero points are added at once.

    ONNX Runtime rounds so; where scales are equal, many sums lie half-way between two integers.
    """

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
        a_ratio, b_ratio = _only(a_scale) / _only(y_scale), _only(b_scale) / _only(y_scale)
        zeros = _only(y_zero_point) - (a_ratio * _only(a_zero_point) + b_ratio * _only(b_zero_point))
        y = (zeros + a.astype(np.float32) * a_ratio) + b.astype(np.float32) * b_ratio
        return requantize(y, 1.0, None, a.dtype)

    return Kernel(run)


@TABLE.operator("QLinearMul", 1, domain=MICROSOFT)
def qlinear_mul(node: NodeSpec) -> Kernel:
    """The product."""

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
        y = _real(a, a_scale, a_zero_point) * _real(b, b_scale, b_zero_point)
        return _quantized(np.asarray(y), y_scale, y_zero_point, a.dtype)

    return Kernel(run)


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
    """Softmax along an axis; from ``axis`` to the end where ``opset`` is below 13.

    Shares are counted in whole parts of 1, as many as fit the output's scale: ONNX Runtime rounds so.
    """
    before_13 = node.attr("opset", 13) < 13
    axis = node.attr("axis", 1 if before_13 else -1)

    def run(
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray | None,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        first = checked_axis(node, axis, x.ndim)
        axes = tuple(range(first, x.ndim)) if before_13 else (first,)
        table = np.exp(np.arange(-255, 1) * float(_only(x_scale))).astype(np.float32)
        powers = table[255 + x.astype(np.int32) - x.max(axes, keepdims=True, initial=np.iinfo(x.dtype).min)]
        shares = powers * np.floor(1 / _only(y_scale)) / powers.sum(axes, keepdims=True)
        return requantize(shares, 1.0, y_zero_point, x.dtype)

    return Kernel(run)


@TABLE.operator("QLinearReduceMean", 1, domain=MICROSOFT)
def qlinear_reduce_mean(node: NodeSpec) -> Kernel:
    """The mean over ``axes``, or over all."""
    axes, keepdims = node.attr("axes") or None, bool(node.attr("keepdims", 1))
    return _unary(lambda x: np.asarray(x.mean(axes, keepdims=keepdims)))


@TABLE.operator("QLinearAveragePool", 1, domain=MICROSOFT)
def qlinear_average_pool(node: NodeSpec) -> Kernel:
    """The mean of each window; with ``count_include_pad`` every window has as many elements as the kernel.

    That differs from ``AveragePool`` where ``ceil_mode`` lets a window reach beyond the padding. The zero point is
    added before rounding, and windows are summed row by row: ONNX Runtime's order, which decides ties.
    """
    spec, include_pads = WindowSpec.of(node, partial=True), bool(node.attr("count_include_pad", 0))
    last = bool(node.attr("channels_last", 0))

    def run(
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray | None,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        real = _real(x, x_scale, x_zero_point)
        planes = np.moveaxis(real, -1, 1) if last else real
        axes = spec.axes(planes.shape[2:])
        y = np.zeros((*planes.shape[:2], *out_shape(axes)), np.float32)
        for offset in np.ndindex(*(axis.kernel for axis in axes)):
            seen_by, seen = zip(*(axis.meet(at) for axis, at in zip(axes, offset, strict=True)), strict=True)
            y[..., *seen_by] += planes[..., *seen]
        y /= math.prod(axis.kernel for axis in axes) if include_pads else _counts(axes)
        y = requantize(y / _only(y_scale) + _only(y_zero_point), 1.0, None, x.dtype)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if last else y

    return Kernel(run)


def _counts(axes: Sequence[Axis]) -> np.ndarray:
    """How many elements of each window lie inside the input, at least 1."""
    return np.maximum(reduce(np.multiply.outer, (axis.counts(pads=False) for axis in axes)), 1)


@TABLE.operator("QLinearGlobalAveragePool", 1, domain=MICROSOFT)
def qlinear_global_average_pool(node: NodeSpec) -> Kernel:
    """The mean over all spatial axes, of sums of integers."""
    last = bool(node.attr("channels_last", 0))

    def run(
        x: np.ndarray,
        x_scale: np.ndarray,
        x_zero_point: np.ndarray | None,
        y_scale: np.ndarray,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        axes = tuple(range(1, x.ndim - 1)) if last else tuple(range(2, x.ndim))
        count = math.prod(x.shape[axis] for axis in axes)
        sums = x.sum(axes, np.int64, keepdims=True) - count * int(_only(x_zero_point))
        ratio = _only(x_scale) / (_only(y_scale) * np.float32(count))
        return requantize(sums.astype(np.float32) * ratio, 1.0, y_zero_point, x.dtype)

    return Kernel(run)


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
