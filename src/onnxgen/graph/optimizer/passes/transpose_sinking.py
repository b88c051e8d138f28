"""Transposes move down through elementwise operators to the next transpose, where both merge or cancel.

This is how graphs that change between layouts around every convolution lose most of the changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, constant, dims, input_at, maker, permutation, rank, used_once
from onnxgen.graph.optimizer.level import OptimizationLevel

_UNARY = frozenset(
    ("Abs", "Cast", "Ceil", "Clip", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log",
     "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh")
)  # fmt: skip
_BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"))


def sink(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``f(transpose(x), ...)`` as ``transpose(f(x, ...))``, where another transpose follows."""
    if context.opset() < 7:
        return
    perm = next((p for p in map(_perm_under, node.inputs) if p is not None), None)
    if perm is None or not _leads_to_transpose(node):
        return
    count = 1 if node.op_type in _UNARY else len(node.inputs)
    operands = [_unmoved(node, value, perm) for value in node.inputs[:count]]
    if any(operand is None for operand in operands):
        return
    edit = Edit(context, node, transposes_moved_down=1)
    attributes = {name: attr(node, name) for name in node.attributes}
    if node.op_type == "Concat":
        attributes["axis"] = perm[attributes["axis"]]
    (result,) = edit.ops(node.op_type, [*operands, *node.inputs[count:]], attributes)
    result.type = node.outputs[0].type
    sizes = dims(node.outputs[0])
    if sizes is not None:
        result.shape = ir.Shape([sizes[axis] for axis in _inverse(perm)])
    yield edit.replace(node.outputs[0], edit.op("Transpose", result, perm=perm))


def _unmoved(node: ir.Node, value: ir.Value | None, perm: tuple[int, ...]) -> ir.Value | np.ndarray | None:
    """The operand before the transpose; None where it has not gone through the same one."""
    if value is not None and _perm_under(value) == perm:
        transpose = maker(value)
        return None if transpose is None else input_at(transpose, 0)
    array = constant(value)
    if array is None or node.op_type == "Concat" or array.ndim > len(perm):
        return None
    if array.size == 1:
        return value
    aligned = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    return np.ascontiguousarray(aligned.transpose(_inverse(perm)))


def _perm_under(value: ir.Value | None) -> tuple[int, ...] | None:
    node = maker(value)
    if value is None or node is None or node.op_type != "Transpose" or node.domain or not used_once(value):
        return None
    return permutation(node)


def _leads_to_transpose(node: ir.Node) -> bool:
    """Whether the only user of the result, or of what elementwise operators make of it, is a transpose."""
    while used_once(node.outputs[0]) and rank(node.outputs[0]) is not None:
        (user,) = node.outputs[0].consumers()
        if user.domain or user.graph is not node.graph:
            return False
        if user.op_type == "Transpose":
            return True
        if user.op_type not in _UNARY | _BINARY | {"Concat"}:
            return False
        node = user
    return False


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.argsort(perm))


TRANSPOSE_SINKING = rewriting(
    "transpose_sinking", OptimizationLevel.ALL, dict.fromkeys((*_UNARY, *_BINARY, "Concat"), sink)
)
