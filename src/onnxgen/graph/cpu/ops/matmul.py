"""Products of matrices: MatMul, Gemm, Einsum, Det, and the fused forms of ONNX Runtime's optimizer.

Narrow floating-point types are multiplied and summed in float32; integers wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu import products
from onnxgen.graph.cpu.activation_functions import fused_activation
from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.half import NARROW_FLOATS, widened, widening
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def matmul(a: np.ndarray, b: np.ndarray, y: np.ndarray | None = None) -> Any:
    """``a @ b`` in the type of ``a``."""
    if a.dtype not in NARROW_FLOATS:
        return products.matmul(a, b, y) if y is None or y.ndim else _scalar(np.matmul(a, b), y)
    product = products.matmul(widened(a), widened(b))
    if y is None:
        return product.astype(a.dtype)
    y[...] = product
    return y


def _scalar(product: Any, y: np.ndarray) -> Any:
    y[...] = product
    return product


@TABLE.operator("MatMul", 1, 9, 13, name="matmul")
def make_matmul(node: NodeSpec) -> Kernel:
    """NumPy's ``matmul``: stacks of matrices broadcast, vectors are rows or columns."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(matmul(a, b))

    return Kernel(run, matmul)


@TABLE.operator("Gemm", 1, 6, 7, 9, 11, 13)
def gemm(node: NodeSpec) -> Kernel:
    """``alpha * A' @ B' + beta * C``; C broadcasts, and is optional from opset 11."""
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    transposed = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))

    def into(a: np.ndarray, b: np.ndarray, *c_and_y: Any) -> None:
        *c_given, y = c_and_y
        c: np.ndarray | None = c_given[0] if c_given else None
        left, right = a.T if transposed[0] else a, b.T if transposed[1] else b
        scaled = alpha != 1.0 or (c is not None and beta != 1.0)
        if y.dtype in NARROW_FLOATS or (y.dtype.kind != "f" and scaled):
            wide = np.float32 if y.dtype in NARROW_FLOATS else np.float64
            product = alpha * products.matmul(left.astype(wide), right.astype(wide))
            y[...] = product if c is None else product + beta * c.astype(wide)
            return
        products.matmul(left, right, y)
        if alpha != 1.0:
            np.multiply(y, alpha, y)
        if c is not None:
            np.add(y, c if beta == 1.0 else c * y.dtype.type(beta), y)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        shape = a.shape[1 if transposed[0] else 0], b.shape[0 if transposed[1] else 1]
        y = np.empty(shape, a.dtype)
        into(a, b, c, y)
        return y

    return Kernel(run, into)


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


@TABLE.operator("Einsum", 12, 28)
def einsum(node: NodeSpec) -> Kernel:
    """Sums of products as the equation says; NumPy picks the order of more than two factors."""
    equation = node.attr("equation").replace(" ", "")

    def function(*inputs: np.ndarray) -> Any:
        result = np.einsum(equation, *inputs, optimize=len(inputs) > 1)
        return result.copy() if len(inputs) == 1 else result  # a transpose or a diagonal would be a view

    return function_kernel(widening(function))


@TABLE.operator("Det", 11, 22)
def det(node: NodeSpec) -> Kernel:
    """Determinants of the matrices in the last two axes."""
    return function_kernel(widening(np.linalg.det))
