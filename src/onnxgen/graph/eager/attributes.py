"""Attributes of eager calls: checked against the operator's schema, and in a form that can be a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import onnx.defs
import onnx_ir as ir

from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.eager.graph_attribute import read_graph
from onnxgen.graph.ir.arrays import array_of, default_dtype, host_array, is_plain
from onnxgen.graph.ir.attributes import tensor_array, value_type
from onnxgen.graph.ir.types import MapType, OptionalType, SequenceType, TensorType, onnx_dtype

_Kind = onnx.defs.OpSchema.AttrType


class TensorKey:
    """A tensor attribute as part of a key: equal when type, shape and bytes are."""

    __slots__ = ("_identity", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        content = tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
        self._identity = (array.dtype, array.shape, content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorKey) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


Key = tuple[tuple[str, Any], ...]
"""Attributes by name, hashable; a node's attributes can be made from it."""


class AttributeRules:
    """The attributes that an operator accepts.

    Args:
        schema: Its schema; None where nobody knows it, and values speak for themselves.
        operator: Its name, for messages.
    """

    def __init__(self, schema: onnx.defs.OpSchema | None, operator: str) -> None:
        self._operator = operator
        known = {} if schema is None else schema.attributes
        self._kinds = None if schema is None else {name: attribute.type for name, attribute in known.items()}
        self.names = frozenset(known)
        self.required = frozenset(name for name, attribute in known.items() if attribute.required)

    def key(self, attributes: Mapping[str, Any]) -> Key:
        """Check a call's attributes and make a key of them; None counts as not given.

        Raises:
            OptionError: an attribute is unknown, missing, or of the wrong type.
        """
        key: list[tuple[str, Any]] = []
        for name in sorted(attributes):
            value = attributes[name]
            if value is not None:
                key.append((name, self._converted(name, value)))
        missing = self.required - {name for name, _ in key}
        if missing:
            raise OptionError(f"{self._operator} needs the attribute {', '.join(map(repr, sorted(missing)))}")
        return tuple(key)

    def _converted(self, name: str, value: Any) -> Any:
        what = f"{self._operator}: attribute {name!r}"
        if self._kinds is None:
            return _guessed(value, what)
        if name not in self._kinds:
            names = ", ".join(sorted(self._kinds)) or "none"
            raise OptionError(
                f"{self._operator} has no attribute {name!r}{did_you_mean(name, self._kinds)}; it has {names}"
            )
        return _checked(value, self._kinds[name], what)


def node_attributes(key: Key) -> dict[str, Any]:
    """The attributes of a node with that key."""
    return {name: _opened(value) for name, value in key}


def _opened(value: Any) -> Any:
    if isinstance(value, TensorKey):
        return value.array
    if isinstance(value, tuple):
        return tuple(_opened(item) for item in cast("tuple[Any, ...]", value))
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, type | np.dtype):  # an element type, as Cast wants it
        return int(onnx_dtype(np.dtype(cast("Any", value))))
    raise TypeError


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError
    return float(value)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        return str(value)
    raise TypeError


def _tensor(value: Any) -> TensorKey:
    if hasattr(value, "SerializeToString"):
        value = ir.from_proto(value)
    if isinstance(value, ir.TensorProtocol):
        return TensorKey(tensor_array(value))
    if is_plain(value):
        return TensorKey(array_of(value, default_dtype(value), "a tensor attribute"))
    return TensorKey(host_array(value, "a tensor attribute").copy())


def _type(value: Any) -> Any:
    if hasattr(value, "SerializeToString"):
        found = ir.serde.deserialize_type_proto_for_type(value)
        return value_type(found, ir.serde.deserialize_type_proto_for_shape(value))
    if isinstance(value, TensorType | SequenceType | OptionalType | MapType):
        return value
    raise TypeError


def _all(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(values: Any) -> tuple[Any, ...]:
        if isinstance(values, str | bytes | dict):
            raise TypeError
        return tuple(one(value) for value in values)

    return convert


_FORMS: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    _Kind.INT: ("an integer", _integer),
    _Kind.FLOAT: ("a number", _real),
    _Kind.STRING: ("a text", _text),
    _Kind.TENSOR: ("a tensor", _tensor),
    _Kind.GRAPH: ("a graph (onnx_ir.Graph or GraphProto)", read_graph),
    _Kind.TYPE_PROTO: ("a type (TypeProto)", _type),
    _Kind.INTS: ("a list of integers", _all(_integer)),
    _Kind.FLOATS: ("a list of numbers", _all(_real)),
    _Kind.STRINGS: ("a list of texts", _all(_text)),
    _Kind.TENSORS: ("a list of tensors", _all(_tensor)),
    _Kind.GRAPHS: ("a list of graphs", _all(read_graph)),
}


def _checked(value: Any, kind: Any, what: str) -> Any:
    if kind not in _FORMS:
        raise OptionError(
            f"{what} is a {kind.name.lower().replace('_', ' ')}, which cannot be given here; give a dense tensor"
        )
    form, convert = _FORMS[kind]
    try:
        return convert(value)
    except (TypeError, ValueError) as cause:
        raise OptionError(f"{what} is {form}, found {value!r}") from cause


_GUESSES = (_integer, _real, _text, read_graph, _all(_integer), _all(_real), _all(_text), _tensor)


def _guessed(value: Any, what: str) -> Any:
    for convert in _GUESSES:
        try:
            return convert(value) if not isinstance(value, np.ndarray) else _tensor(value)
        except (TypeError, ValueError):
            continue
    raise OptionError(
        f"{what} is {value!r}, which is no attribute: give numbers, texts, lists of these, tensors or graphs"
    )
