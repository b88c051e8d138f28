"""Element types as the definition of an operator alone gives them."""

from __future__ import annotations

from collections.abc import Mapping

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
    if definition is None:
        return None
    known = [
        (index, value, str(value_type(value.type)))
        for index, value in enumerate(node.inputs)
        if value is not None and value.type is not None and value.dtype is not ir.DataType.UNDEFINED
    ]
    found = wrong_input(definition, {index: kind for index, _, kind in known})
    if found is None:
        return None
    index, reason = found
    (name,) = (value.name for position, value, _ in known if position == index)
    return f"{node.op_type} {node.name or ''}: input {name!r} {reason}"


def wrong_input(definition: onnx.defs.OpSchema, kinds: Mapping[int, str]) -> tuple[int, str] | None:
    """The first input whose type breaks the operator's definition, and why, as in "is tensor(int8), but ..."; None if none does.

    Args:
        definition: The operator.
        kinds: Types of inputs by position, as in ``tensor(float)``; those of which nothing is known are not there.
    """
    allowed = {c.type_param_str: c.allowed_type_strs for c in definition.type_constraints}
    bound: dict[str, str] = {}
    for index, kind in kinds.items():
        if not definition.inputs:
            return None
        formal = definition.inputs[min(index, len(definition.inputs) - 1)]
        if index >= len(definition.inputs) and formal.option != _VARIADIC:
            return None
        name = formal.type_str
        if kind not in allowed.get(name, (name,)):
            return (
                index,
                f"is {kind}, but {formal.name} takes {', '.join(sorted(allowed.get(name, (name,))))}",
            )
        if formal.is_homogeneous and bound.setdefault(name, kind) != kind:
            return index, f"is {kind}, but another input of the same type {name} is {bound[name]}"
    return None


def _type(text: str) -> ir.TypeProtocol | None:
    """The type that a definition writes as ``tensor(float)`` or ``seq(tensor(float))``; None for others."""
    if text.startswith("seq(") and (element := _type(text[4:-1])) is not None:
        return ir.SequenceType(element)
    dtype = dtype_named(text)
    return None if dtype is None else ir.TensorType(dtype)
