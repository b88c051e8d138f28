"""Element types as the definition of an operator alone gives them."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.graph.ir.schemas import normal_domain, schema

_ELEMENTS = {"float": "FLOAT", "double": "DOUBLE"}


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
        if value.type is None:
            value.type = bound.get(formal.type_str) or _type(only.get(formal.type_str, formal.type_str))


def _type(text: str) -> ir.TypeProtocol | None:
    """The type that a definition writes as ``tensor(float)`` or ``seq(tensor(float))``; None for others."""
    if text.startswith("seq(") and (element := _type(text[4:-1])) is not None:
        return ir.SequenceType(element)
    if not text.startswith("tensor("):
        return None
    name = text[7:-1]
    found = ir.DataType.__members__.get(_ELEMENTS.get(name, name.upper()))
    return None if found is None else ir.TensorType(found)
