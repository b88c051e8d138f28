"""Running sums and products along an axis: CumSum, CumProd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import computing_dtype
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _scan(ufunc: np.ufunc, start: int) -> Callable[[NodeSpec], Kernel]:
    def make(node: NodeSpec) -> Kernel:
        exclusive, reverse = bool(node.attr("exclusive", 0)), bool(node.attr("reverse", 0))

        def into(x: np.ndarray, axis: np.ndarray, y: np.ndarray) -> None:
            if axis.size != 1 or not -x.ndim <= int(axis.item()) < x.ndim:
                raise KernelError(f"{node}: axis {axis.tolist()} is no axis of a tensor of rank {x.ndim}")
            source, target = (np.moveaxis(a, int(axis.item()), 0) for a in (x, y))
            if reverse:
                source, target = source[::-1], target[::-1]
            if exclusive:
                target[:1] = start
                source, target = source[:-1], target[1:]
            wide = computing_dtype(x.dtype)
            if wide == x.dtype:
                ufunc.accumulate(source, 0, wide, target)
            else:
                target[...] = ufunc.accumulate(source.astype(wide), 0)

        def run(x: np.ndarray, axis: np.ndarray) -> Any:
            y = np.empty(x.shape, x.dtype)
            into(x, axis, y)
            return y

        return Kernel(run, into)

    return make


TABLE.operator("CumSum", 11, 14, name="cumsum")(_scan(np.add, 0))
TABLE.operator("CumProd", 26, name="cumprod")(_scan(np.multiply, 1))
