"""Element types as the definition of an operator alone gives them."""

from __future__ import annotations

import onnx.defs
import onnx_ir as ir

from onnxgen.graph.ir.attributes import value_type
from onnxgen.graph.ir.schemas import normal_domain, schema
from onnxgen.graph.ir.types import dtype_named

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def infer_types_by_schema(node: ir.Node, opset: int) -> None:
    """Give outputs without a type the one that their inputs' types or the operator's definition leave no choice of."""
    definition = schema(normal_domain(node.domain), node.op_type, opset)
    if definition is None or all(value.type is not None for value in node.outputs):
        return
    bound: dict[str, ir.TypeProtocol] = {}
    for formal, value in zip(definition.inputs, node.inputs, strict=False):
        if value is not None and value.type is not None:
            bound.setdefault(formal.type_str, value.type)
    only = {
        constraint.type_param_str: constraint.allowed_type_strs[0]
        for constraint in definition.type_constraints
        if len(constraint.allowed_type_strs) == 1
    }
    for formal, value in zip(definition.outputs, node.outputs, strict=False):
        if value.type is None and formal.option != _VARIADIC:
            value.type = bound.get(formal.type_str) or _type(only.get(formal.type_str, formal.type_str))


def type_contradiction(node: ir.Node, opset: int) -> str | None:
    """Why the types of a node's inputs break the operator's definition; None if they do not."""
    definition = schema(normal_domain(node.domain), node.op_type, opset)
    if definition is None or not definition.inputs:
        return None
    allowed = {c.type_param_str: c.allowed_type_strs for c in definition.type_constraints}
    bound: dict[str, str] = {}
    for index, value in enumerate(node.inputs):
        formal = definition.inputs[min(index, len(definition.inputs) - 1)]
        if value is None or value.type is None or (value.dtype is ir.DataType.UNDEFINED):
            continue
        if index >= len(definition.inputs) and formal.option != _VARIADIC:
            return None
        found, name = str(value_type(value.type)), formal.type_str
        where = f"{node.op_type} {node.name or ''}: input {value.name!r} is {found}"
        if found not in allowed.get(name, (name,)):
            return f"{where}, but {formal.name} takes {', '.join(sorted(allowed.get(name, (name,))))}"
        if formal.is_homogeneous and bound.setdefault(name, found) != found:
            return f"{where}, but another input of the same type {name} is {bound[name]}"
    return None


def _type(text: str) -> ir.TypeProtocol | None:
    """The type that a definition writes as ``tensor(float)`` or ``seq(tensor(float))``; None for others."""
    if text.startswith("seq(") and (element := _type(text[4:-1])) is not None:
        return ir.SequenceType(element)
    dtype = dtype_named(text)
    return None if dtype is None else ir.TensorType(dtype)
