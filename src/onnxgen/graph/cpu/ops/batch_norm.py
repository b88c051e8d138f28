"""BatchNormalization in all its versions.

1, 6    is_test, spatial; outputs Y and in training mean, var, saved_mean, saved_var
7       spatial; training where the further outputs are wanted
9       the same without spatial
14, 15  training_mode; outputs Y, running_mean, running_var
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgen.graph.cpu.half import computing_dtype, widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.rowwise import scale_rows
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@dataclass(frozen=True, slots=True)
class _Options:
    epsilon: float
    momentum: float
    spatial: bool


def _options(node: NodeSpec) -> _Options:
    return _Options(node.attr("epsilon", 1e-5), node.attr("momentum", 0.9), bool(node.attr("spatial", 1)))


def _beside(values: np.ndarray, x: np.ndarray, options: _Options) -> np.ndarray:
    """Statistics of channels (or of every feature) so that they broadcast with data of shape (N, C, ...)."""
    wide = widened(values)
    return wide.reshape(-1, *[1] * (x.ndim - 2)) if options.spatial and x.ndim > 1 else wide


def _normalize(x: Any, scale: Any, bias: Any, mean: Any, var: Any, y: np.ndarray, options: _Options) -> None:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` as one multiplication and one addition."""
    dtype = computing_dtype(x.dtype)
    scale, bias, mean, var = (
        _beside(v, x, options).astype(dtype, copy=False) for v in (scale, bias, mean, var)
    )
    factor = scale / np.sqrt(var + dtype.type(options.epsilon))
    offset = bias - mean * factor
    if dtype == x.dtype and options.spatial and x.ndim > 2:
        scale_rows(x, factor.reshape(-1), offset.reshape(-1), y)
    elif dtype == x.dtype:
        np.multiply(x, factor, y)
        np.add(y, offset, y)
    else:
        y[...] = x.astype(dtype) * factor + offset


def _inference(node: NodeSpec) -> Kernel:
    options = _options(node)

    def into(x: np.ndarray, scale: Any, bias: Any, mean: Any, var: Any, y: np.ndarray) -> None:
        _normalize(x, scale, bias, mean, var, y, options)

    def run(x: np.ndarray, scale: Any, bias: Any, mean: Any, var: Any) -> np.ndarray:
        y = np.empty(x.shape, x.dtype)
        into(x, scale, bias, mean, var, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))


def _training(node: NodeSpec) -> Kernel:
    options = _options(node)
    num_outputs = len(node.outputs)

    def run(x: np.ndarray, scale: Any, bias: Any, mean: np.ndarray, var: np.ndarray) -> Any:
        axes = (0, *range(2, x.ndim)) if options.spatial else (0,)
        wide = widened(x)
        current_mean, current_var = wide.mean(axes), wide.var(axes)
        y = np.empty(x.shape, x.dtype)
        _normalize(x, scale, bias, current_mean, current_var, y, options)
        kept = options.momentum
        running = [
            (widened(old) * kept + now * (1 - kept)).astype(old.dtype)
            for old, now in ((mean, current_mean), (var, current_var))
        ]
        saved = current_mean.astype(mean.dtype), current_var.astype(var.dtype)
        outputs = (y, *running, *saved)[:num_outputs]
        return outputs if num_outputs > 1 else y

    return Kernel(run)


@TABLE.operator("BatchNormalization", 14, 15)
def batch_normalization(node: NodeSpec) -> Kernel:
    """Inference by given statistics, or with ``training_mode`` by the batch's own, which move the running ones."""
    if node.attr("training_mode", 0):
        return _training(node)
    return _padded(_inference(node), len(node.outputs))


@TABLE.operator("BatchNormalization", 7, 9, name="batch_normalization/9")
def batch_normalization_9(node: NodeSpec) -> Kernel:
    """Training where the running statistics are wanted, else inference."""
    if any(node.wants_output(index) for index in range(1, 5)):
        return _training(node)
    return _padded(_inference(node), len(node.outputs))


@TABLE.operator("BatchNormalization", 1, 6, name="batch_normalization/6")
def batch_normalization_6(node: NodeSpec) -> Kernel:
    """Inference with ``is_test``, and where no further output is wanted: nobody trains through such a node."""
    if node.attr("is_test", 0):
        return _padded(_inference(node), len(node.outputs))
    return batch_normalization_9(node)


def _padded(kernel: Kernel, num_outputs: int) -> Kernel:
    """The kernel with None for outputs that only training has."""
    if num_outputs == 1:
        return kernel
    run = kernel.run
    return Kernel(lambda *inputs: (run(*inputs), *[None] * (num_outputs - 1)))
