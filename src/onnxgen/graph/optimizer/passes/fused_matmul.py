"""Transposes and scalar factors around a matrix product go into it: Gemm, or FusedMatMul of the contrib operators."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    attr,
    dtype,
    input_at,
    is_real,
    maker,
    permutation,
    rank,
    scalar,
    used_once,
)
from onnxgen.graph.optimizer.level import OptimizationLevel


def transposed(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``MatMul(transpose(a), b)``: a Gemm for matrices, else a FusedMatMul."""
    operands = [_untransposed(node, i) for i in range(2)]
    flags: dict[str, Any] = {"transA": attr(node, "transA", 0), "transB": attr(node, "transB", 0)}
    for name, operand in zip(flags, operands, strict=True):
        flags[name] ^= operand is not None
    inputs = [node.inputs[i] if operand is None else operand for i, operand in enumerate(operands)]
    if operands == [None, None] or not is_real(node.inputs[0]):
        return
    given: dict[str, Any] = {name: flag for name, flag in flags.items() if flag}
    if not node.domain and rank(inputs[0]) == rank(inputs[1]) == 2 and context.opset() >= 11:
        edit = Edit(context, node, transposes_fused_into_products=1)
        yield edit.replace(node.outputs[0], edit.op("Gemm", *inputs, **given))
    if (attr(node, "transBatchA", 0), attr(node, "transBatchB", 0)) == (0, 0):
        edit = Edit(context, node, transposes_fused_into_products=1)
        alpha = attr(node, "alpha", 1.0)
        yield edit.replace(
            node.outputs[0], edit.op("FusedMatMul", *inputs, domain=MICROSOFT, alpha=alpha, **given)
        )


def scaled(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``MatMul(a, b) * c`` and ``MatMul(a, b) / c`` for a number c, as a FusedMatMul with alpha."""
    operands = (
        [tuple(node.inputs)] if node.op_type == "Div" else [tuple(node.inputs), tuple(reversed(node.inputs))]
    )
    if context.opset() < 7 or len(node.inputs) != 2:
        return
    for product, factor in operands:
        matmul, number = maker(product, node), scalar(factor)
        if product is None or matmul is None or number is None or not used_once(product):
            continue
        if (matmul.domain, matmul.op_type) not in (("", "MatMul"), (MICROSOFT, "FusedMatMul")):
            continue
        # Half floats are rounded, or overflow, before they are scaled; and alpha is no double.
        if dtype(product) is not ir.DataType.FLOAT or (rank(factor) or 0) > (rank(product) or 0):
            continue
        if not isfinite(number) or (node.op_type == "Div" and number == 0):
            continue
        alpha = attr(matmul, "alpha", 1.0) * (1 / number if node.op_type == "Div" else number)
        attributes: dict[str, Any] = {name: attr(matmul, name) for name in matmul.attributes}
        attributes["alpha"] = float(alpha)
        edit = Edit(context, node, factors_fused_into_products=1)
        yield edit.replace(
            node.outputs[0], edit.op("FusedMatMul", *matmul.inputs, domain=MICROSOFT, **attributes)
        )


def _untransposed(node: ir.Node, index: int) -> ir.Value | None:
    """What a Transpose of the last two axes under that input transposes."""
    value = input_at(node, index)
    producer = maker(value, node)
    if (
        value is None
        or producer is None
        or producer.op_type != "Transpose"
        or producer.domain
        or not used_once(value)
    ):
        return None
    perm = permutation(producer)
    if perm is None or len(perm) < 2:
        return None
    last = len(perm) - 1
    return input_at(producer, 0) if perm == (*range(last - 1), last, last - 1) else None


FUSED_MATMUL = rewriting(
    "fused_matmul",
    OptimizationLevel.EXTENDED,
    {"MatMul": transposed, f"{MICROSOFT}.FusedMatMul": transposed},
    {"Mul": scaled, "Div": scaled},
)
