"""Nodes as protobufs again, as onnx.reference takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.schemas import schema
from onnxgen.graph.ir.types import MapType, OptionalType, SequenceType, TensorType, ValueType

_A = onnx.AttributeProto


def node_proto(node: NodeSpec) -> onnx.NodeProto:
    """The node with inputs ``x0``, ``x1``, ... and outputs ``y0``, ...; empty names for what it leaves out."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name=node.name)
    proto.input.extend(f"x{index}" if value is not None else "" for index, value in enumerate(node.inputs))
    proto.output.extend(f"y{index}" if value is not None else "" for index, value in enumerate(node.outputs))
    known = schema(node.domain, node.op_type, node.opset)
    for name, value in node.attributes.items():
        kind: Any = known.attributes[name].type if known is not None and name in known.attributes else None
        proto.attribute.append(_attribute(name, value, None if kind is None else int(kind)))
    return proto


def type_proto(value: ValueType | None) -> onnx.TypeProto:
    """A type; empty for unknown types and inputs that are left out."""
    proto = onnx.TypeProto()
    if isinstance(value, TensorType) and value.dtype is not ir.DataType.UNDEFINED:
        proto.tensor_type.elem_type = value.dtype.value
        for dim in value.shape or ():
            field = {"dim_value": dim} if isinstance(dim, int) else {"dim_param": dim or ""}
            proto.tensor_type.shape.dim.add(**field)
        if value.shape == ():
            proto.tensor_type.shape.SetInParent()
    elif isinstance(value, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(type_proto(value.element))
    elif isinstance(value, OptionalType):
        proto.optional_type.elem_type.CopyFrom(type_proto(value.element))
    elif isinstance(value, MapType):
        proto.map_type.key_type = value.key.value
        proto.map_type.value_type.CopyFrom(type_proto(value.value))
    return proto


def _attribute(name: str, value: Any, kind: int | None) -> onnx.AttributeProto:
    kind = _kind_of(value) if kind is None else kind
    proto = onnx.AttributeProto(name=name, type=kind)  # type: ignore[arg-type]
    match kind:
        case _A.FLOAT:
            proto.f = value
        case _A.INT:
            proto.i = value
        case _A.STRING:
            proto.s = _bytes(value)
        case _A.TENSOR:
            proto.t.CopyFrom(_tensor(value))
        case _A.GRAPH:
            proto.g.CopyFrom(ir.to_proto(value))
        case _A.TYPE_PROTO:
            proto.tp.CopyFrom(type_proto(value))
        case _A.FLOATS:
            proto.floats.extend(value)
        case _A.INTS:
            proto.ints.extend(value)
        case _A.STRINGS:
            proto.strings.extend(map(_bytes, value))
        case _A.TENSORS:
            proto.tensors.extend(map(_tensor, value))
        case _:
            proto.graphs.extend(ir.to_proto(graph) for graph in value)
    return proto


def _kind_of(value: Any) -> int:
    """The kind of an attribute that no schema describes; an empty list is one of integers."""
    several = isinstance(value, tuple)
    first: Any = next(iter(value), 0) if several else value
    for python_type, single, many in (
        (float, _A.FLOAT, _A.FLOATS),
        (str, _A.STRING, _A.STRINGS),
        (np.ndarray, _A.TENSOR, _A.TENSORS),
        (ir.Graph, _A.GRAPH, _A.GRAPHS),
    ):
        if isinstance(first, python_type):
            return many if several else single
    return _A.INTS if several else _A.INT


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _tensor(array: np.ndarray) -> onnx.TensorProto:
    if array.dtype == object:
        strings = [_bytes(text) for text in array.reshape(-1)]
        return onnx.TensorProto(data_type=onnx.TensorProto.STRING, dims=array.shape, string_data=strings)
    return onnx.numpy_helper.from_array(array)
