"""Attributes of nodes as plain Python values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.types import OptionalType, SequenceType, TensorType, ValueType, numpy_dtype

_PLAIN = {ir.AttributeType.INT: int, ir.AttributeType.FLOAT: float, ir.AttributeType.STRING: str}


def attribute_value(attribute: ir.Attr) -> Any:
    """The value: int, float, str, `numpy.ndarray`, `onnx_ir.Graph`, a `ValueType`, or a tuple of one of those.

    Strings that are not UTF-8 keep their bytes through ``surrogateescape``.

    Raises:
        InvalidGraphError: for a reference to a function's attribute (functions are inlined before), and for kinds
            that no operator uses.
    """
    if attribute.is_ref():
        raise InvalidGraphError(
            f"attribute {attribute.name!r} refers to an attribute of a function, outside of one"
        )
    kind, value = attribute.type, attribute.value
    if kind in _PLAIN:
        return _text(value) if kind is ir.AttributeType.STRING else _PLAIN[kind](value)
    if kind is ir.AttributeType.TENSOR:
        return tensor_array(value)
    if kind is ir.AttributeType.GRAPH:
        return value
    if kind is ir.AttributeType.TYPE_PROTO:
        return value_type(value.type, value.shape)
    if kind is ir.AttributeType.STRINGS:
        return tuple(_text(item) for item in value)
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.GRAPHS):
        return tuple(value)
    if kind is ir.AttributeType.TENSORS:
        return tuple(tensor_array(item) for item in value)
    raise InvalidGraphError(f"attribute {attribute.name!r} is of kind {kind}, which no operator here takes")


def attribute_values(node: ir.Node) -> dict[str, Any]:
    """Every attribute of a node, by name."""
    return {name: attribute_value(attribute) for name, attribute in node.attributes.items()}


def tensor_array(tensor: ir.TensorProtocol) -> np.ndarray:
    """A tensor as an array of the type that `numpy_dtype` names; strings as ``object`` arrays of ``str``."""
    if tensor.dtype is ir.DataType.STRING:
        flat = [_text(item) for item in np.asarray(tensor.numpy(), dtype=object).reshape(-1)]
        array = np.empty(len(flat), dtype=object)
        array[:] = flat
        return array.reshape(tuple(tensor.shape.numpy()))
    array = tensor.numpy()
    expected = numpy_dtype(tensor.dtype)
    return array if array.dtype == expected else array.view(expected)


def value_type(kind: ir.TypeProtocol | None, shape: ir.Shape | None = None) -> ValueType:
    """The type of an onnx-ir value, with its shape where it is a tensor."""
    if isinstance(kind, ir.SequenceType):
        return SequenceType(value_type(kind.elem_type, shape))
    if isinstance(kind, ir.OptionalType):
        return OptionalType(value_type(kind.elem_type, shape))
    if kind is None or isinstance(kind, ir.TensorType | ir.SparseTensorType):
        dims = None if shape is None else tuple(d if isinstance(d, int) else d.value for d in shape.dims)
        return TensorType(ir.DataType.UNDEFINED if kind is None else kind.dtype, dims)
    raise InvalidGraphError(f"type {kind} is not one that values here can have")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "surrogateescape")
