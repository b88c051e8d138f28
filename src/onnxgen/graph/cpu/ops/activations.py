"""Activation functions."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Relu", 1, 6, 13, 14)
def relu(node: NodeSpec) -> Kernel:
    """``max(x, 0)``; NaN stays NaN."""

    def run(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(x, x.dtype.type(0)))

    def into(x: np.ndarray, y: np.ndarray) -> None:
        np.maximum(x, x.dtype.type(0), out=y)

    return Kernel(run, into, in_place=((0, 0),))
