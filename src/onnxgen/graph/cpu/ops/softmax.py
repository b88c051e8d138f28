"""Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.arrays import formula_kernel
from onnxgen.graph.cpu.indexing import checked_axis
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.softmax import hardmax, log_softmax, softmax
from onnxgen.graph.cpu.stepwise import HALVES
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

AlongAxis = Callable[[np.ndarray, np.ndarray, int], None]


def _register(op_type: str, along_axis: AlongAxis, own_types: frozenset[np.dtype] = frozenset()) -> None:
    @TABLE.operator(op_type, 13, name=op_type.lower())
    def along(node: NodeSpec) -> Kernel:
        axis = node.attr("axis", -1)

        def write(x: np.ndarray, y: np.ndarray) -> None:
            if not x.size:
                return
            if x.ndim == 0:  # one value, of one element
                along_axis(x.reshape(1), y.reshape(1), 0)
            else:
                along_axis(x, y, axis)

        return formula_kernel(write, in_place=True, own_types=own_types)

    @TABLE.operator(op_type, 1, 11, name=f"{op_type.lower()}/flattened")
    def flattened(node: NodeSpec) -> Kernel:
        """All axes from ``axis`` on are one."""
        axis = node.attr("axis", 1)

        def write(x: np.ndarray, y: np.ndarray) -> None:
            if not x.size:
                return
            rows = math.prod(x.shape[: axis if axis == x.ndim else checked_axis(node, axis, x.ndim)])
            along_axis(x.reshape(rows, -1), y.reshape(rows, -1), 1)

        return formula_kernel(write, in_place=True, own_types=own_types)


_register("Softmax", softmax, HALVES)
_register("LogSoftmax", log_softmax)
_register("Hardmax", hardmax)
