"""Normalizations over features: layer, RMS, group, instance, Lp, mean-variance and local response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.arrays import formula_kernel
from onnxgen.graph.cpu.half import computing_dtype, widened
from onnxgen.graph.cpu.indexing import checked_axis
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.row_norms import norm_halves, serves_halves
from onnxgen.graph.cpu.rowwise import normalize_rows
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_DOUBLE = 11  # TensorProto.DOUBLE


def standardize(x: np.ndarray, y: np.ndarray, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any]:
    """``(x - mean) / sqrt(variance + epsilon)`` over axes, into ``y``, which may be ``x``.

    Returns:
        The mean and the reciprocal of the deviation, axes kept.
    """
    mean = x.mean(axes, keepdims=True)
    np.subtract(x, mean, y)
    inverse = 1 / np.sqrt(np.square(y).mean(axes, keepdims=True) + x.dtype.type(epsilon))
    np.multiply(y, inverse, y)
    return mean, inverse


def rms_scale(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    """``1 / sqrt(mean(x^2) + epsilon)`` over axes, which are kept."""
    return 1 / np.sqrt(np.square(x).mean(axes, keepdims=True) + x.dtype.type(epsilon))


def _axes_from(node: NodeSpec, rank: int) -> tuple[int, ...]:
    return tuple(range(checked_axis(node, node.attr("axis", -1), rank), rank))


def _require_channels(node: NodeSpec, count: int, *parameters: np.ndarray) -> None:
    """Compiled loops read as many factors as there are channels."""
    if any(parameter.shape != (count,) for parameter in parameters):
        shapes = " and ".join(str(parameter.shape) for parameter in parameters)
        raise KernelError(
            f"{node}: scale and bias {shapes} do not have the {count} elements that its input needs"
        )


def _one_per_element(x: np.ndarray, axes: tuple[int, ...], scale: np.ndarray) -> bool:
    """Whether each element of the axes has its own factor, as nearly always."""
    return x.size > 0 and len(axes) > 0 and scale.size == math.prod(x.shape[axes[0] :])


def _stash_dtype(node: NodeSpec, x: np.ndarray) -> np.dtype:
    """The type of the first stage: ``stash_type``, and never a narrower one than the data's own."""
    stash = np.float64 if node.attr("stash_type", 1) == _DOUBLE else np.float32
    return np.promote_types(stash, computing_dtype(x.dtype))


@TABLE.operator("LayerNormalization", 17)
def layer_normalization(node: NodeSpec) -> Kernel:
    """Standardize the axes from ``axis`` on, then scale and shift; mean and inverse deviation where wanted."""
    epsilon = node.attr("epsilon", 1e-5)
    num_outputs = len(node.outputs)
    stash_double = node.attr("stash_type", 1) == _DOUBLE

    def normalize(
        x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, y: np.ndarray
    ) -> tuple[Any, Any]:
        wide, axes = _stash_dtype(node, x), _axes_from(node, x.ndim)
        if wide == np.float32 and serves_halves(x, axes, scale, bias):
            _, mean, inverse = norm_halves(x, axes, epsilon, centered=True, weight=scale, offset=bias, out=y)
            return mean, inverse
        direct = wide == x.dtype
        source, staged = (x, y) if direct else (x.astype(wide), np.empty(x.shape, wide))
        if _one_per_element(source, axes, scale) and (bias is None or bias.size == scale.size):
            statistics = normalize_rows(
                source,
                staged,
                axes=len(axes),
                epsilon=epsilon,
                scale=scale.astype(wide, copy=False).reshape(1, -1),
                bias=None if bias is None else bias.astype(wide, copy=False).reshape(1, -1),
            )
            kept = (*x.shape[: axes[0]], *[1] * len(axes))
            mean, inverse = (values.reshape(kept) for values in statistics)
        else:
            mean, inverse = standardize(source, staged, axes, epsilon)
            np.multiply(staged, widened(scale), staged)
            if bias is not None:
                np.add(staged, widened(bias), staged)
        if not direct:
            y[...] = staged
        return mean, inverse

    def run(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None) -> Any:
        y = np.empty(x.shape, x.dtype)
        statistics = normalize(x, scale, bias, y)
        stash = np.float64 if stash_double else np.float32
        kept = (np.asarray(value, stash) for value in statistics)
        return (y, *kept)[:num_outputs] if num_outputs > 1 else y

    def into(x: np.ndarray, scale: np.ndarray, *bias_and_outputs: Any) -> None:
        *bias, y = bias_and_outputs[: len(bias_and_outputs) - num_outputs + 1]
        outputs = bias_and_outputs[len(bias_and_outputs) - num_outputs + 1 :]
        statistics = normalize(x, scale, bias[0] if bias else None, y)
        for output, value in zip(outputs, statistics, strict=False):
            output[...] = value

    return Kernel(run, into, in_place=((0, 0),))


@TABLE.operator("RMSNormalization", 23)
def rms_normalization(node: NodeSpec) -> Kernel:
    """Divide by the root mean square of the axes from ``axis`` on, then scale."""
    epsilon = node.attr("epsilon", 1e-5)

    def into(x: np.ndarray, scale: np.ndarray, y: np.ndarray) -> None:
        wide = _stash_dtype(node, x)
        axes = _axes_from(node, x.ndim)
        if wide == x.dtype and scale.dtype == wide and _one_per_element(x, axes, scale):
            factors = scale.reshape(1, -1)
            normalize_rows(x, y, axes=len(axes), epsilon=epsilon, scale=factors, bias=None, centered=False)
            return
        if wide == np.float32 and y.dtype == x.dtype and serves_halves(x, axes, scale, None):
            # the standard leaves the first stage in the type of x
            norm_halves(x, axes, epsilon, centered=False, weight=scale, rounds=True, out=y)
            return
        if wide == x.dtype:
            np.multiply(x, rms_scale(x, axes, epsilon), y)
            np.multiply(y, scale, y)
            return
        staged = x.astype(wide)
        np.multiply(staged, rms_scale(staged, axes, epsilon), staged)
        # the standard leaves the first stage in the type of x, then scales in that of the scale
        y[...] = widened(staged.astype(x.dtype)) * widened(scale)

    def run(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        y = np.empty(x.shape, scale.dtype)
        into(x, scale, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))


@TABLE.operator("InstanceNormalization", 1, 6, 22)
def instance_normalization(node: NodeSpec) -> Kernel:
    """Standardize every channel of every instance, then scale and shift it."""
    epsilon = node.attr("epsilon", 1e-5)

    def write(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, y: np.ndarray) -> None:
        _require_channels(node, x.shape[1], scale, bias)
        if x.size:
            normalize_rows(
                x, y, axes=x.ndim - 2, epsilon=epsilon, scale=scale.reshape(-1, 1), bias=bias.reshape(-1, 1)
            )

    return formula_kernel(write, in_place=True)


def _group_normalization(node: NodeSpec, *, scale_groups: bool) -> Kernel:
    num_groups, epsilon = node.attr("num_groups"), node.attr("epsilon", 1e-5)
    if num_groups < 1:
        raise InvalidGraphError(f"{node} has num_groups {num_groups}; it must be at least 1")

    def write(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, y: np.ndarray) -> None:
        channels = x.shape[1]
        if channels % num_groups:
            raise KernelError(f"{node}: {channels} channels do not split into {num_groups} groups")
        _require_channels(node, num_groups if scale_groups else channels, scale, bias)
        grouped = (x.shape[0], num_groups, channels // num_groups, *x.shape[2:])
        if x.size:
            factors, shifts = (
                values.reshape(num_groups, 1 if scale_groups else -1) for values in (scale, bias)
            )
            normalize_rows(
                x.reshape(grouped),
                y.reshape(grouped),
                axes=x.ndim - 1,
                epsilon=epsilon,
                scale=factors,
                bias=shifts,
            )

    return formula_kernel(write, in_place=True)


@TABLE.operator("GroupNormalization", 21)
def group_normalization(node: NodeSpec) -> Kernel:
    """Standardize groups of channels; scale and bias for every channel."""
    return _group_normalization(node, scale_groups=False)


@TABLE.operator("GroupNormalization", 18, name="group_normalization/18")
def group_normalization_18(node: NodeSpec) -> Kernel:
    """The same with scale and bias for every group."""
    return _group_normalization(node, scale_groups=True)


@TABLE.operator("LpNormalization", 1, 22)
def lp_normalization(node: NodeSpec) -> Kernel:
    """Divide by the L1 or L2 norm along an axis; where that is 0 the result is 0."""
    axis, order = node.attr("axis", -1), node.attr("p", 2)

    def write(x: np.ndarray, y: np.ndarray) -> None:
        if order == 1:
            norm = np.absolute(x).sum(axis, keepdims=True)
        else:
            norm = np.sqrt(np.square(x).sum(axis, keepdims=True))
        np.divide(x, np.where(norm == 0, x.dtype.type(1), norm), y)

    return formula_kernel(write, in_place=True)


@TABLE.operator("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(node: NodeSpec) -> Kernel:
    """Subtract the mean and divide by the deviation over axes, (0, 2, 3) by default."""
    axes = tuple(node.attr("axes", (0, 2, 3)))

    def write(x: np.ndarray, y: np.ndarray) -> None:
        np.subtract(x, x.mean(axes, keepdims=True), y)
        np.divide(y, np.sqrt(np.square(y).mean(axes, keepdims=True)) + x.dtype.type(1e-9), y)

    return formula_kernel(write, in_place=True)


@TABLE.operator("LRN", 1, 13)
def local_response_normalization(node: NodeSpec) -> Kernel:
    """``x / (bias + alpha / size * sum of squares of the channels around) ** beta``."""
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    size = node.attr("size")
    if size < 1:
        raise InvalidGraphError(f"{node} has size {size}; it must be at least 1")
    before, after = (size - 1) // 2, math.ceil((size - 1) / 2)

    def write(x: np.ndarray, y: np.ndarray) -> None:
        squares = np.square(x)
        channels = x.shape[1]
        total = np.zeros_like(squares)
        for offset in range(max(-before, 1 - channels), min(after, channels - 1) + 1):
            # total[:, c] += squares[:, c + offset]
            first, last = max(0, -offset), min(channels, channels - offset)
            total[:, first:last] += squares[:, first + offset : last + offset]
        np.divide(x, np.power(bias + total * x.dtype.type(alpha / size), x.dtype.type(beta)), y)

    return formula_kernel(write, in_place=True)
