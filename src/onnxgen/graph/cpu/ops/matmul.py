"""Products of matrices: MatMul, Gemm, Einsum, Det, and the fused forms of ONNX Runtime's optimizer.

Narrow floating-point types are multiplied and summed in float32; integers wrap.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu import products
from onnxgen.graph.cpu.activation_functions import fused_activation
from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.float_products import FloatProducts
from onnxgen.graph.cpu.half import NARROW_FLOATS, widened, widening
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.packed_floats import pack
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
    """NumPy's ``matmul``: stacks of matrices broadcast, vectors are rows or columns; a constant matrix is packed once."""
    packed = _packed(node)
    if packed is not None:
        return packed.kernel()

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(matmul(a, b))

    return Kernel(run, matmul)


@TABLE.operator("Gemm", 1, 6, 7, 9, 11, 13)
def gemm(node: NodeSpec) -> Kernel:
    """``alpha * A' @ B' + beta * C``; C broadcasts, and is optional from opset 11."""
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    transposed = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    packed = _packed(node, transposed=transposed[1])
    if packed is not None:
        return _packed_gemm(packed, alpha, beta, trans_a=transposed[0])

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


class _Packed:
    """A product with a constant matrix, in kernels that read it as it was packed."""

    def __init__(self, node: NodeSpec, matrix: np.ndarray) -> None:
        self._name = str(node)
        self._products = FloatProducts(pack([matrix], transposed=True))
        self.columns = matrix.shape[1]

    def kernel(self, alpha: float = 1.0) -> Kernel:
        """``alpha * a @ matrix``."""

        def into(a: np.ndarray, _: np.ndarray, y: np.ndarray) -> None:
            self.multiply(a, y, alpha=alpha)

        def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            y = np.empty((*a.shape[:-1], self.columns), a.dtype)
            into(a, b, y)
            return y

        return Kernel(run, into, absorbed=(1,))

    def multiply(
        self, a: np.ndarray, y: np.ndarray, *, alpha: float = 1.0, addend: np.ndarray | None = None
    ) -> None:
        """``y = alpha * a @ matrix + addend``; the addend is float32 and broadcasts."""
        if a.ndim < 1 or a.shape[-1] != self._products.depth:
            raise KernelError(
                f"{self._name}: an input of shape {a.shape} does not fit {self._products.depth} rows of weights"
            )
        x = np.ascontiguousarray(widened(a)).reshape(-1, a.shape[-1])
        wide = (
            y.reshape(-1, self.columns)
            if y.dtype == np.float32
            else np.empty((len(x), self.columns), np.float32)
        )
        by_column = (
            addend is not None and alpha == 1.0 and addend.shape in ((self.columns,), (1, self.columns))
        )
        self._products.multiply(
            x, wide, np.ascontiguousarray(addend) if addend is not None and by_column else None
        )
        if alpha != 1.0:
            wide *= np.float32(alpha)
        if addend is not None and not by_column:
            wide += addend
        if y.dtype != np.float32:
            converted(wide.reshape(y.shape), y.dtype, y)


def _packed(node: NodeSpec, *, transposed: bool = False) -> _Packed | None:
    """The product with the node's right operand, where that is a constant matrix worth it."""
    matrix = node.constants.get(1)
    if matrix is None or matrix.ndim != 2 or matrix.dtype not in _FEWEST_ELEMENTS:
        return None
    if matrix.size < _FEWEST_ELEMENTS[matrix.dtype]:
        return None
    return _Packed(node, matrix.T if transposed else matrix)


_FEWEST_ELEMENTS = {
    np.dtype(np.float32): 1 << 17,
    np.dtype(np.float16): 1 << 12,
    np.dtype(ml_dtypes.bfloat16): 1 << 12,
}
"""Of a matrix that is packed: BLAS begins faster with smaller ones, but would have to widen those of 16 bits first."""


def _packed_gemm(packed: _Packed, alpha: float, beta: float, *, trans_a: bool) -> Kernel:
    def into(a: np.ndarray, _: np.ndarray, *c_and_y: Any) -> None:
        *c_given, y = c_and_y
        addend: np.ndarray | None = widened(c_given[0]) if c_given and c_given[0] is not None else None
        if addend is not None and beta != 1.0:
            addend = addend * np.float32(beta)
        packed.multiply(a.T if trans_a else a, y, alpha=alpha, addend=addend)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        y = np.empty((a.shape[1 if trans_a else 0], packed.columns), a.dtype)
        into(a, b, c, y)
        return y

    return Kernel(run, into, absorbed=(1,))


@TABLE.operator("TransposeMatMul", 1, domain=MICROSOFT)
@TABLE.operator("FusedMatMul", 1, domain=MICROSOFT)
def fused_matmul(node: NodeSpec) -> Kernel:
    """``alpha * a' @ b'``, each of them transposed as the node says."""
    alpha = node.attr("alpha", 1.0)
    flags = [(node.attr(f"transBatch{side}", 0), node.attr(f"trans{side}", 0)) for side in "AB"]
    packed = None if any(flags[0]) else _packed(node, transposed=bool(flags[1][1]))
    if packed is not None:
        return packed.kernel(alpha)

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
    product, activation = gemm(node), fused_activation(node)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        return activation(product.run(a, b, c))

    return Kernel(run, absorbed=product.absorbed)


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
