"""MatMul and the bias added to it become one Gemm."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import dims, input_at, is_real, maker, rank, static_dim, used_once
from onnxgen.graph.optimizer.level import OptimizationLevel


def matmul_add(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``MatMul(a, b) + c`` as ``Gemm(a, b, c)``, for matrices and a c that does not widen the product."""
    if context.opset() < 7 or len(node.inputs) != 2:
        return
    for product, c in (tuple(node.inputs), tuple(reversed(node.inputs))):
        matmul = maker(product, node)
        if product is None or c is None or matmul is None or matmul.op_type != "MatMul" or matmul.domain:
            continue
        a, b = input_at(matmul, 0), input_at(matmul, 1)
        if not (rank(a) == rank(b) == 2 and is_real(a) and used_once(product) and _fits(c, a, b)):
            continue
        edit = Edit(context, node, MatMul_and_Add_made_Gemm=1)
        yield edit.replace(node.outputs[0], edit.op("Gemm", a, b, c))


def _fits(c: ir.Value, a: ir.Value | None, b: ir.Value | None) -> bool:
    shape, rows, columns = dims(c), static_dim(a, 0), static_dim(b, 1)
    if shape is None or len(shape) > 2:
        return False
    wanted = (rows, columns)[2 - len(shape) :]
    return all(d == 1 or (isinstance(d, int) and d == w) for d, w in zip(shape, wanted, strict=True))


GEMM = rewriting("gemm", OptimizationLevel.BASIC, {"Add": matmul_add})
