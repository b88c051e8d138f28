"""Activations with the additions that ONNX Runtime's optimizer fuses into them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.activations import gelu, gelu_tanh, silu
from onnxgen.graph.cpu.attention import softmax
from onnxgen.graph.cpu.half import widening
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _with_bias(function: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    def run(x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        return function(x if bias is None else x + bias)

    return Kernel(widening(run))


@TABLE.operator("Gelu", 1, domain=MICROSOFT)
@TABLE.operator("BiasGelu", 1, domain=MICROSOFT)
def bias_gelu(node: NodeSpec) -> Kernel:
    """`gelu` of the sum."""
    return _with_bias(gelu)


@TABLE.operator("FastGelu", 1, domain=MICROSOFT)
def bias_fast_gelu(node: NodeSpec) -> Kernel:
    """`gelu_tanh` of the sum."""
    return _with_bias(gelu_tanh)


@TABLE.operator("QuickGelu", 1, domain=MICROSOFT)
def quick_gelu(node: NodeSpec) -> Kernel:
    """`silu` with ``alpha``; 1.702 where it is left out."""
    alpha = node.attr("alpha", 1.702)

    def run(x: np.ndarray) -> np.ndarray:
        return silu(x, alpha)

    return Kernel(widening(run))


@TABLE.operator("BiasAdd", 1, domain=MICROSOFT)
def bias_add(node: NodeSpec) -> Kernel:
    """The sum of three."""

    def run(x: np.ndarray, bias: np.ndarray, skip: np.ndarray) -> np.ndarray:
        return x + bias + skip

    return Kernel(widening(run))


@TABLE.operator("BiasSplitGelu", 1, domain=MICROSOFT)
def bias_split_gelu(node: NodeSpec) -> Kernel:
    """The left half of the sum times the `gelu` of the right half."""

    def run(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        left, right = np.split(x + bias, 2, axis=-1)
        return left * gelu(right)

    return Kernel(widening(run))


@TABLE.operator("BiasSoftmax", 1, domain=MICROSOFT)
def bias_softmax(node: NodeSpec) -> Kernel:
    """Softmax of the sum over all axes from ``axis`` on.

    The bias broadcasts as in the addition that was fused; ``is_inner_broadcast`` only says so once more.
    """
    axis = node.attr("axis", 1)

    def run(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        total = np.asarray(x + bias)
        if total.shape != x.shape:
            raise KernelError(f"{node}: bias {bias.shape} does not broadcast to {x.shape}")
        at = axis + x.ndim if axis < 0 else axis
        return softmax(total.reshape(prod(x.shape[:at]), prod(x.shape[at:]))).reshape(x.shape)

    return Kernel(widening(run))
