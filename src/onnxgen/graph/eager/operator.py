"""One operator as a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir as ir

from onnxgen.errors import FeedError, KernelError, OnnxgenError
from onnxgen.graph.eager.attributes import AttributeRules, Key, node_attributes
from onnxgen.graph.eager.inputs import PASSED_ON, Inputs, type_key
from onnxgen.graph.eager.kernels import captured_names
from onnxgen.graph.eager.outputs import OutputCount
from onnxgen.graph.ir.arrays import host_array
from onnxgen.graph.ir.attributes import attribute_value


def make_operator(
    kernels: Callable[..., Any], domain: str, op_type: str, opset: int, schema: onnx.defs.OpSchema | None
) -> Callable[..., Any]:
    """The function that applies an operator to values.

    Args:
        kernels: See `onnxgen.graph.eager.kernels.kernel_cache`.
        domain: The operator's domain.
        op_type: The operator.
        opset: Version of the domain.
        schema: What ``onnx`` knows of it; None for operators of others, whose inputs and attributes go unchecked.
    """
    formals, rules, counts = (
        Inputs(schema, op_type),
        AttributeRules(schema, op_type),
        OutputCount(schema, op_type),
    )
    input_names = frozenset(formals.names) - rules.names
    usual = counts.usual
    quick = schema is not None and usual is not None and not rules.required
    least, most = (0, 0) if schema is None else (schema.min_input, schema.max_input)

    def operator(
        *inputs: Any, outputs: int | None = None, captures: Mapping[str, Any] | None = None, **attributes: Any
    ) -> Any:
        if quick and not attributes and outputs is None and least <= len(inputs) <= most:
            for value in inputs:
                if type(value) is not np.ndarray or value.dtype not in PASSED_ON:
                    break
            else:  # nothing to convert or to check
                types = tuple([(value.dtype, value.ndim) for value in inputs])
                return apply(kernels(domain, op_type, opset, types, (), usual), inputs)
        named = {name: attributes.pop(name) for name in input_names.intersection(attributes)}
        values = formals.convert(formals.by_name(inputs, named))
        key = rules.key(attributes)
        if captures or any(isinstance(value, ir.Graph) for _, value in key):
            values += captured(key, captures or {})
        count = (
            usual
            if usual is not None and outputs is None
            else counts.of(outputs, values, node_attributes(key))
        )
        run = kernels(domain, op_type, opset, tuple(map(type_key, values)), key, count)
        return apply(run, values)

    def apply(run: Callable[..., Any], values: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return run(*values)
        except KernelError as cause:
            if op_type in str(cause):
                raise
            raise KernelError(f"{op_type}: {cause}") from cause
        except OnnxgenError:
            raise
        except Exception as cause:
            found = ", ".join(map(_described, values))
            raise KernelError(
                f"{op_type} failed: {type(cause).__name__}: {cause}; its inputs were ({found})"
            ) from cause

    def captured(key: Key, given: Mapping[str, Any]) -> list[Any]:
        names = captured_names(node_attributes(key))
        if set(names) != set(given):
            raise FeedError(
                f"{op_type}: its graphs use the outer values {list(names)}, captures= has {list(given)}; give exactly those"
            )
        return [host_array(given[name], f"{op_type}: captured value {name!r}") for name in names]

    operator.__name__ = operator.__qualname__ = op_type
    operator.__module__ = "onnxgen.eager"
    operator.__doc__ = _doc(domain, op_type, opset, schema)
    operator.__signature__ = _signature(schema)  # type: ignore[attr-defined]
    return operator


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "left out" if value is None else f"{type(value).__name__} of {len(value)}"


def _doc(domain: str, op_type: str, opset: int, schema: onnx.defs.OpSchema | None) -> str:
    where = f"{domain or 'ai.onnx'} opset {opset}"
    if schema is None:
        return f"{op_type} of {where}. onnx has no schema for it; see the execution provider that runs it."
    lines = [f"{op_type}-{schema.since_version} of {where}.", "", inspect.cleandoc(schema.doc or ""), ""]
    sections = {"Args": schema.inputs, "Returns": schema.outputs}
    for title, formals in sections.items():
        lines.append(f"{title}:")
        lines += [
            f"    {formal.name} ({formal.type_str}): {_one_line(formal.description)}" for formal in formals
        ]
    lines += ["Attributes:"] if schema.attributes else []
    lines += [
        f"    {name}: {_one_line(item.description)}" for name, item in sorted(schema.attributes.items())
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _signature(schema: onnx.defs.OpSchema | None) -> inspect.Signature:
    kinds = inspect.Parameter
    if schema is None:
        parameters = [kinds("inputs", kinds.VAR_POSITIONAL), kinds("attributes", kinds.VAR_KEYWORD)]
        return inspect.Signature(parameters)
    option = onnx.defs.OpSchema.FormalParameterOption
    parameters: list[inspect.Parameter] = []
    for formal in schema.inputs:
        if formal.option is option.Variadic:
            parameters.append(kinds(_identifier(formal.name), kinds.VAR_POSITIONAL))
        else:
            default = (
                None
                if formal.option is option.Optional or (parameters and parameters[-1].default is None)
                else kinds.empty
            )
            parameters.append(kinds(_identifier(formal.name), kinds.POSITIONAL_OR_KEYWORD, default=default))
    taken = {parameter.name for parameter in parameters}
    for name, attribute in sorted(schema.attributes.items()):
        if name not in taken:
            default = kinds.empty if attribute.required else _default(attribute)
            parameters.append(kinds(_identifier(name), kinds.KEYWORD_ONLY, default=default))
    parameters.append(kinds("outputs", kinds.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def _identifier(name: str) -> str:
    return name if name.isidentifier() and name not in ("if", "else", "in", "is") else f"{name}_"


def _default(attribute: onnx.defs.OpSchema.Attribute) -> Any:
    proto = attribute.default_value
    return attribute_value(ir.from_proto(proto)) if proto.type else None
