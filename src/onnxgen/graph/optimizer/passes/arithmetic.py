"""Arithmetic that cannot change its operand goes: x + 0, x - 0, x * 1, x / 1, x ** 1, --x, not not x.

Exactly: ``x + 0.0`` turns -0.0 into 0.0, so it goes only where x cannot be -0.0 or is a sum whose zero has no defined sign.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import broadcasts_into, constant, input_at, maker
from onnxgen.graph.optimizer.level import OptimizationLevel

_ZERO_WITHOUT_SIGN = frozenset(
    ("Abs", "Exp", "Sigmoid", "Softmax", "Softplus", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceSum",
     "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "GlobalAveragePool")
)  # fmt: skip
_ITS_OWN_INVERSE = ("Neg", "Not", "BitwiseNot")


def neutral(node: ir.Node, context: Context) -> Iterator[Edit]:
    """The other operand, where one is neutral and does not widen the shape."""
    if context.opset() < 7 or len(node.inputs) != 2:  # before, shapes followed attributes
        return
    left, right = node.inputs
    pairs = [(left, right)] if node.op_type in ("Sub", "Div", "Pow") else [(left, right), (right, left)]
    for x, other in pairs:
        if x is None or other is None or not _is_neutral(node, x, other) or not broadcasts_into(other, x):
            continue
        yield Edit(context, node, **{f"{node.op_type}_without_effect_removed": 1}).replace(node.outputs[0], x)


def _is_neutral(node: ir.Node, x: ir.Value, other: ir.Value) -> bool:
    array = constant(other)
    if array is None or array.size == 0 or array.dtype.kind in "OUSb":
        return False
    if node.op_type in ("Mul", "Div", "Pow"):
        return bool((array == 1).all())
    if (array != 0).any():
        return False
    if array.dtype.kind in "iu":
        return True
    negative = np.signbit(array.astype(np.float64))
    if node.op_type == "Sub":
        return not negative.any()
    producer = maker(x)
    return bool(negative.all()) or (producer is not None and producer.op_type in _ZERO_WITHOUT_SIGN)


def twice(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``f(f(x))`` as ``x`` for operators that are their own inverse."""
    inner = maker(input_at(node, 0), node)
    if inner is None or inner.op_type != node.op_type or inner.domain:
        return
    x = input_at(inner, 0)
    if x is not None:
        yield Edit(context, node, **{f"{node.op_type}_there_and_back_removed": 1}).replace(node.outputs[0], x)


ARITHMETIC = rewriting(
    "arithmetic",
    OptimizationLevel.BASIC,
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow"), neutral),
        **dict.fromkeys(_ITS_OWN_INVERSE, twice),
    },
)
