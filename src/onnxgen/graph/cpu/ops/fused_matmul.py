"""Matrix products that ONNX Runtime's optimizer fuses with transpositions and activations."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu import products
from onnxgen.graph.cpu.activation_functions import fused_activation
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.ops.matmul import gemm
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("TransposeMatMul", 1, domain=MICROSOFT)
@TABLE.operator("FusedMatMul", 1, domain=MICROSOFT)
def fused_matmul(node: NodeSpec) -> Kernel:
    """``alpha * a' @ b'``, each of them transposed as the node says."""
    alpha = node.attr("alpha", 1.0)
    flags = [(node.attr(f"transBatch{side}", 0), node.attr(f"trans{side}", 0)) for side in "AB"]

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, right = (_arranged(widened(x), *flag) for x, flag in zip((a, b), flags, strict=True))
        y = products.matmul(left, right)
        return np.asarray(y if alpha == 1.0 else y * y.dtype.type(alpha)).astype(a.dtype, copy=False)

    return Kernel(run)


def _arranged(x: np.ndarray, batch: int, matrix: int) -> np.ndarray:
    """Swap the last two axes (``matrix``) of a tensor whose rows may be its first axis (``batch``)."""
    if batch and x.ndim > 2:
        x = np.moveaxis(x, 0, -2)
    return x.swapaxes(-1, -2) if matrix and x.ndim > 1 else x


@TABLE.operator("FusedGemm", 1, domain=MICROSOFT)
def fused_gemm(node: NodeSpec) -> Kernel:
    """``activation(Gemm(a, b, c))``."""
    product, activation = gemm(node).run, fused_activation(node)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        return activation(product(a, b, c))

    return Kernel(run)
