"""Small ONNX models as protobufs, right or wrong on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper


def node(op_type: str, inputs: str = "", outputs: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by spaces, ``_`` is an empty one."""
    return helper.make_node(op_type, names(inputs), names(outputs), **attributes)


def names(text: str) -> list[str]:
    return ["" if name == "_" else name for name in text.split()]


def floats(name: str, dims: Sequence[Any] | None = (2,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)


def weight(name: str, *values: float) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values or (1, 2), np.float32), name)


def scalar(name: str, value: float) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(value, np.float32), name)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: str = "x",
    outputs: str = "y",
    initializers: Sequence[onnx.TensorProto] = (),
    name: str = "g",
) -> onnx.GraphProto:
    """A graph whose inputs and outputs are two floats each."""
    return helper.make_graph(
        list(nodes),
        name,
        [floats(n) for n in names(inputs)],
        [floats(n) for n in names(outputs)],
        list(initializers),
    )


def model(
    content: onnx.GraphProto | Sequence[onnx.NodeProto],
    *,
    opsets: dict[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    ir_version: int = 10,
    **graph_options: Any,
) -> onnx.ModelProto:
    """A model of a graph, or of the nodes of one."""
    made = onnx.ModelProto(ir_version=ir_version)
    made.graph.CopyFrom(content if isinstance(content, onnx.GraphProto) else graph(content, **graph_options))
    for domain, version in ({"": 17} if opsets is None else opsets).items():
        made.opset_import.add(domain=domain, version=version)
    made.functions.extend(functions)
    return made


def function(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: str = "a",
    outputs: str = "b",
    *,
    opsets: dict[str, int] | None = None,
    attributes: Sequence[str] = (),
    defaults: dict[str, Any] | None = None,
    overload: str = "",
    domain: str = "local",
) -> onnx.FunctionProto:
    """A function of a model."""
    made = onnx.FunctionProto(name=name, domain=domain, overload=overload, attribute=attributes)
    made.input.extend(names(inputs))
    made.output.extend(names(outputs))
    made.node.extend(nodes)
    for imported, version in ({"": 17, domain: 1} if opsets is None else opsets).items():
        made.opset_import.add(domain=imported, version=version)
    made.attribute_proto.extend(helper.make_attribute(key, value) for key, value in (defaults or {}).items())
    return made


def call(name: str, inputs: str = "x", outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A call of a function of the domain ``local``."""
    return node(name, inputs, outputs, domain="local", **attributes)


def referring(made: onnx.NodeProto, name: str, to: str, kind: int) -> onnx.NodeProto:
    """The node with an attribute that refers to one of its function."""
    made.attribute.add(name=name, ref_attr_name=to, type=kind)
    return made
