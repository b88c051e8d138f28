"""What scales or shifts the channels of a convolution moves into its weights: BatchNormalization, Mul, Add."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, constant, input_at, maker, rank, used_once, wants
from onnxgen.graph.optimizer.level import OptimizationLevel

_EXACT_ENOUGH = (np.dtype(np.float32), np.dtype(np.float64))  # weights of 16 bits would be rounded once more


def batch_normalization(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``BatchNormalization(Conv(x))`` as one Conv."""
    if any(wants(node, i) for i in range(1, len(node.outputs))) or not _is_inference(node, context):
        return
    parameters = [constant(input_at(node, i)) for i in range(1, 5)]
    scale, shift, mean, variance = (None if p is None else p.astype(np.float64) for p in parameters)
    if scale is None or shift is None or mean is None or variance is None:
        return
    with np.errstate(all="ignore"):  # what is not finite is not folded
        factor = scale / np.sqrt(variance + attr(node, "epsilon", 1e-5))
    yield from _absorbed(node, node.inputs[0], factor, shift - mean * factor, context)


def multiply(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Conv(x) * c`` as one Conv, for one factor or one a channel."""
    for conv, other in _operands(node, context):
        factor = _per_channel(conv, other)
        if factor is not None:
            yield from _absorbed(node, conv, factor, np.zeros_like(factor), context)


def add(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Conv(x) + c`` as one Conv, for one addend or one a channel."""
    for conv, other in _operands(node, context):
        shift = _per_channel(conv, other)
        if shift is not None:
            yield from _absorbed(node, conv, np.ones_like(shift), shift, context)


def _operands(node: ir.Node, context: Context) -> list[tuple[ir.Value | None, ir.Value | None]]:
    if context.opset() < 7 or len(node.inputs) != 2:
        return []
    left, right = node.inputs
    return [(left, right), (right, left)]


def _is_inference(node: ir.Node, context: Context) -> bool:
    if context.opset() >= 14:
        return attr(node, "training_mode", 0) == 0
    if context.opset() >= 9:
        return len(node.outputs) == 1
    return (
        len(node.outputs) == 1
        and attr(node, "spatial", 1) == 1
        and (context.opset() >= 7 or attr(node, "is_test", 0) == 1)
    )


def _per_channel(conv: ir.Value | None, value: ir.Value | None) -> np.ndarray | None:
    """A constant of shape ``[1, channels, 1, ...]`` without leading ones, or of one element, as ``[channels]`` or ``[1]``."""
    array, full = constant(value), rank(conv)
    if array is None or array.dtype not in _EXACT_ENOUGH or full is None or array.ndim > full:
        return None
    aligned = array.reshape((1,) * (full - array.ndim) + array.shape).astype(np.float64)
    if any(size != 1 for axis, size in enumerate(aligned.shape) if axis != 1):
        return None
    return aligned.reshape(-1)


def _absorbed(
    node: ir.Node, value: ir.Value | None, factor: np.ndarray, shift: np.ndarray, context: Context
) -> Iterator[Edit]:
    conv = maker(value, node)
    if conv is None or value is None or conv.op_type != "Conv" or conv.domain or not used_once(value):
        return
    weight, bias = constant(input_at(conv, 1)), constant(input_at(conv, 2))
    if (
        weight is None
        or weight.dtype not in _EXACT_ENOUGH
        or (bias is None and input_at(conv, 2) is not None)
    ):
        return
    channels = weight.shape[0]
    if factor.size not in (1, channels):
        return
    by_channel = factor.reshape(-1, *(1,) * (weight.ndim - 1))
    old_bias = np.zeros(channels) if bias is None else bias.astype(np.float64)
    with np.errstate(all="ignore"):
        new_weight = (weight * by_channel).astype(weight.dtype)
        new_bias = (old_bias * factor + shift).astype(weight.dtype)
    if not (np.isfinite(new_weight).all() and np.isfinite(new_bias).all()):
        return
    edit = Edit(context, node, **{f"{node.op_type}_folded_into_Conv": 1})
    inputs = [conv.inputs[0], edit.constant(new_weight, "weight"), edit.constant(new_bias, "bias")]
    attributes = {name: attr(conv, name) for name in conv.attributes}
    yield edit.replace(node.outputs[0], edit.op("Conv", *inputs, **attributes))


CONV_WEIGHTS = rewriting(
    "conv_weights",
    OptimizationLevel.BASIC,
    {"BatchNormalization": batch_normalization, "Mul": multiply, "Add": add},
)
