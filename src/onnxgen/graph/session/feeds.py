"""Feeds against what a model expects: every way to be wrong has its message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnxgen.errors import FeedError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ir.arrays import array_of, default_dtype, host_array, is_plain
from onnxgen.graph.ir.types import (
    Dim,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    numpy_dtype,
    onnx_dtype,
    type_name,
)
from onnxgen.graph.session.ort_value import OrtValue


class InputPort:
    """One input: takes what callers feed and gives what kernels take.

    Args:
        name: Its name.
        kind: Its type. Symbols force nothing, neither equal sizes nor names; an unknown rank takes every rank.
    """

    __slots__ = ("_dtype", "_taken", "kind", "name")

    def __init__(self, name: str, kind: ValueType) -> None:
        self.name = name
        self.kind = kind
        known = isinstance(kind, TensorType) and kind.dtype not in (ir.DataType.STRING, ir.DataType.UNDEFINED)
        # the quick way: arrays that can be passed on once their shape is right
        self._dtype = numpy_dtype(kind.dtype) if known and isinstance(kind, TensorType) else None
        self._taken: tuple[int, ...] | None = None

    @property
    def is_optional(self) -> bool:
        """Whether the value may be None, and so be left out."""
        return isinstance(self.kind, OptionalType)

    def take(self, value: Any) -> Any:
        """The value in the form that kernels take.

        Raises:
            FeedError: the type, rank or a static dimension is wrong.
        """
        # types are compared with what may not be None: NumPy takes None for float64
        if self._dtype is not None and type(value) is np.ndarray and value.dtype == self._dtype:
            if value.shape == self._taken:  # as the last time
                return value
            array = _fitting(value, cast("TensorType", self.kind), f"input {self.name!r}")
            if array is value:
                self._taken = value.shape
            return array
        return _converted(value, self.kind, f"input {self.name!r}")


class Feeds:
    """The inputs of a model.

    Args:
        required: Inputs without a default, in the model's order.
        overridable: Inputs that have one.
        fixed: Names of initializers that cannot be fed, for messages.
    """

    def __init__(
        self, required: Iterable[InputPort], overridable: Iterable[InputPort], fixed: Collection[str]
    ) -> None:
        self._required = tuple(required)
        self._ports = {port.name: port for port in (*self._required, *overridable)}
        self._fixed = frozenset(fixed)

    def prepare(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Check feeds and bring them into the form that kernels take; optional inputs left out become None.

        Raises:
            FeedError: a name is unknown or missing, or a value does not fit its input.
        """
        ports = self._ports
        ready: dict[str, Any] = {}
        for name, value in feeds.items():
            port = ports.get(name)
            if port is None:
                raise FeedError(self._unknown(name))
            ready[name] = port.take(value)
        if len(ready) < len(ports):
            self._complete(ready)
        return ready

    def port(self, name: str) -> InputPort:
        """The input of that name.

        Raises:
            FeedError: there is none.
        """
        if name not in self._ports:
            raise FeedError(self._unknown(name))
        return self._ports[name]

    def _complete(self, ready: dict[str, Any]) -> None:
        missing = [port for port in self._required if port.name not in ready]
        ready.update({port.name: None for port in missing if port.is_optional})
        needed = [f"{port.name!r} ({describe(port.kind)})" for port in missing if not port.is_optional]
        if needed:
            fed = ", ".join(map(repr, ready)) or "nothing"
            raise FeedError(f"missing input {', '.join(needed)}; fed was {fed}")

    def _unknown(self, name: object) -> str:
        if name in self._fixed:
            return (
                f"{name!r} is an initializer that is not an input of the model, so it cannot be fed; replace it with "
                "SessionOptions.add_initializer, or make it an input (IR version 4 or newer)"
            )
        known = ", ".join(map(repr, self._ports)) or "none"
        return (
            f"the model has no input {name!r}{did_you_mean(str(name), self._ports)}; its inputs are {known}"
        )


def describe(kind: ValueType) -> str:
    """A type with its shape, for messages: ``tensor(float)[batch, 3, ?]``."""
    if not isinstance(kind, TensorType):
        return str(kind)
    return f"{kind}{_shape_text(kind.shape)}"


def _shape_text(shape: tuple[Dim, ...] | None) -> str:
    if shape is None:
        return " of any rank"
    return f"[{', '.join(str(dim) if _static(dim) or isinstance(dim, str) else '?' for dim in shape)}]"


def _static(dim: Dim) -> bool:
    return isinstance(dim, int) and dim >= 0


def _converted(value: Any, kind: ValueType, what: str) -> Any:
    if isinstance(value, OrtValue):
        value = value.value
    if isinstance(kind, OptionalType):
        return None if value is None else _converted(value, kind.element, what)
    if value is None:
        raise FeedError(f"{what}: expected {describe(kind)}, found None; only optional inputs may be None")
    if isinstance(kind, SequenceType):
        if not isinstance(value, list | tuple):
            raise FeedError(f"{what}: expected {kind}, a list, found {_found(value)}")
        items = cast("list[Any]", value)
        return [_converted(item, kind.element, f"{what}, item {index}") for index, item in enumerate(items)]
    if isinstance(kind, MapType):
        return _map(value, kind, what)
    return _fitting(_tensor(value, kind, what), kind, what)


def _map(value: Any, kind: MapType, what: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise FeedError(f"{what}: expected {kind}, a dictionary, found {_found(value)}")
    key_type = str if kind.key is ir.DataType.STRING else int
    items = cast("Mapping[Any, Any]", value)
    for key in items:
        if not isinstance(key, str if key_type is str else int | np.integer):
            raise FeedError(f"{what}: expected keys of {type_name(kind.key)}, found {key!r}")
    scalar = TensorType(kind.value.dtype, ()) if isinstance(kind.value, TensorType) else kind.value
    return {
        key_type(key): _plain(_converted(item, scalar, f"{what}, key {key!r}")) for key, item in items.items()
    }


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _tensor(value: Any, kind: TensorType, what: str) -> np.ndarray:
    if isinstance(value, dict):
        raise FeedError(f"{what}: expected {describe(kind)}, found a dictionary")
    if is_plain(value):
        unknown = kind.dtype is ir.DataType.UNDEFINED
        return array_of(value, default_dtype(value) if unknown else kind.dtype, what)
    array = host_array(value, what)
    try:
        found = onnx_dtype(array.dtype)
    except ValueError as cause:
        raise FeedError(f"{what}: expected {describe(kind)}: {cause}") from cause
    if kind.dtype is not ir.DataType.UNDEFINED and found is not kind.dtype:
        raise FeedError(
            f"{what}: expected {describe(kind)}, found tensor({type_name(found)}){_shape_text(array.shape)}; "
            f"convert it, as with .astype({_numpy_name(kind.dtype)})"
        )
    return array


def _fitting(array: np.ndarray, kind: TensorType, what: str) -> np.ndarray:
    expected = kind.shape
    if expected is None:
        return array
    shape = array.shape
    if shape == expected:
        return array
    if len(shape) != len(expected):
        if not expected and shape == (1,):  # a scalar in brackets, which ONNX Runtime lets pass
            return array.reshape(())
        raise FeedError(
            f"{what}: expected {describe(kind)}, of rank {len(expected)}, found shape {_shape_text(shape)}, "
            f"of rank {len(shape)}"
        )
    for axis, (found, dim) in enumerate(zip(shape, expected, strict=True)):
        if found != dim and _static(dim):
            raise FeedError(
                f"{what}: expected {describe(kind)}, found shape {_shape_text(shape)}: dimension {axis} is {found}, "
                f"not {dim}"
            )
    return array


def _numpy_name(dtype: ir.DataType) -> str:
    if dtype is ir.DataType.STRING:
        return "str"
    name = numpy_dtype(dtype).name
    return f"numpy.{name}" if hasattr(np, name) else f"ml_dtypes.{name}"


def _found(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}{_shape_text(value.shape)}"
    return f"a value of type {type(value).__name__}"
