"""Inputs of eager calls: anything array-like in, arrays out, and the types that choose the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx.defs
import onnx_ir as ir

from onnxgen.errors import FeedError
from onnxgen.graph.ir.arrays import array_of, default_dtype, host_array, is_plain
from onnxgen.graph.ir.types import (
    UNKNOWN,
    MapType,
    SequenceType,
    TensorType,
    ValueType,
    onnx_dtype,
    type_name,
)

_Option = onnx.defs.OpSchema.FormalParameterOption
DTYPE_OF_NAME = {
    f"tensor({type_name(dtype)})": dtype for dtype in ir.DataType if dtype is not ir.DataType.UNDEFINED
}
"""Element types by the name that schemas have for tensors of them."""


PASSED_ON = frozenset(np.dtype(name) for name in ("?", *"bhilqBHILQefd")) | {np.dtype(ml_dtypes.bfloat16)}
"""Element types of arrays that need no look at what is in them."""

_onnx_dtype = cache(onnx_dtype)


class Inputs:
    """What an operator takes.

    Args:
        schema: Its schema; None where nobody knows it.
        operator: Its name, for messages.
    """

    def __init__(self, schema: onnx.defs.OpSchema | None, operator: str) -> None:
        self._operator = operator
        self._formals = () if schema is None else tuple(schema.inputs)
        self._least = 0 if schema is None else schema.min_input
        self._most = None if schema is None else schema.max_input
        self._allowed = {} if schema is None else _allowed_types(schema)
        self._needed = [formal.option is _Option.Single for formal in self._formals]
        self.names = tuple(formal.name for formal in self._formals)

    def by_name(self, positional: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """Put inputs that were given by name into their places.

        Raises:
            FeedError: one is given twice.
        """
        values = list(positional)
        for name, value in named.items():
            index = self.names.index(name)
            values.extend([None] * (index + 1 - len(values)))
            if index < len(positional):
                raise FeedError(f"{self._operator}: input {name!r} is given twice, by position and by name")
            values[index] = value
        return values

    def convert(self, values: Sequence[Any]) -> list[Any]:
        """Values in the form that kernels take.

        Python scalars and lists get the element type of the inputs that share their type parameter, and otherwise
        int64, float32, bool or string, as far as the operator allows.

        Raises:
            FeedError: too few, too many, or nothing that could be a value.
        """
        self._check_count(values)
        if all(type(value) is np.ndarray and value.dtype in PASSED_ON for value in values):
            return list(values)
        ready: list[Any] = [
            None if is_plain(value) else self._own(value, index) for index, value in enumerate(values)
        ]
        bound = {
            self._parameter(index): _onnx_dtype(value.dtype)
            for index, value in enumerate(ready)
            if isinstance(value, np.ndarray)
        }
        for index, value in enumerate(values):
            if is_plain(value):
                ready[index] = self._plain(value, index, bound)
        return ready

    def _check_count(self, values: Sequence[Any]) -> None:
        if self._most is None:
            return
        if not self._least <= len(values) <= self._most:
            takes = f"{self._least}" if self._least == self._most else f"{self._least} to {self._most}"
            names = ", ".join(self.names)
            raise FeedError(f"{self._operator} takes {takes} inputs ({names}), found {len(values)}")
        for index, needed in enumerate(self._needed):
            if needed and index < len(values) and values[index] is None:
                raise FeedError(f"{self._operator}: input {self.names[index]!r} is not optional, found None")

    def _own(self, value: Any, index: int) -> Any:
        if value is None or isinstance(value, dict):
            return cast("Any", value)
        array = host_array(value, self._what(index))
        try:
            _onnx_dtype(array.dtype)
        except ValueError as cause:
            raise FeedError(f"{self._what(index)}: {cause}") from cause
        return array

    def _plain(self, value: Any, index: int, bound: dict[str, ir.DataType]) -> Any:
        allowed = self._allowed.get(self._parameter(index).partition("#")[0], ())
        if isinstance(value, list | tuple) and self._is_sequence(cast("list[Any]", value), allowed):
            return [self._own(item, index) for item in cast("list[Any]", value)]
        dtype = bound.get(self._parameter(index))
        if dtype is None:
            dtype = _preferred(default_dtype(value), allowed)
        array = array_of(value, dtype, self._what(index))
        bound.setdefault(self._parameter(index), dtype)
        return array

    def _is_sequence(self, items: Sequence[Any], allowed: Sequence[str]) -> bool:
        sequences = [name.startswith(("seq(", "optional(seq(")) for name in allowed]
        return any(sequences) and (all(sequences) or any(hasattr(item, "dtype") for item in items))

    def _parameter(self, index: int) -> str:
        """The type parameter of an input; a name of its own where inputs are independent."""
        if not self._formals:
            return f"#{index}"
        formal = self._formals[min(index, len(self._formals) - 1)]
        return formal.type_str if formal.is_homogeneous else f"{formal.type_str}#{index}"

    def _what(self, index: int) -> str:
        if not self.names:
            return f"{self._operator}: input {index}"
        return f"{self._operator}: input {self.names[min(index, len(self.names) - 1)]!r}"


def type_key(value: Any) -> Any:
    """What of a value chooses the kernel, hashable."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    if value is None:
        return None
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return "seq", type_key(items[0]) if items else None
    key, item = next(iter(cast("dict[Any, Any]", value).items()), (0, 0.0))
    return "map", type(key), type_key(np.asarray(item))


def type_of_key(key: Any) -> ValueType | None:
    """The type that a key of `type_key` stands for; sizes are unknown, ranks are known."""
    if key is None:
        return None
    if key[0] == "seq":
        dtype = type_of_key((key[1][0], 0)) if key[1] else UNKNOWN
        return SequenceType(TensorType(dtype.dtype) if isinstance(dtype, TensorType) else UNKNOWN)
    if key[0] == "map":
        value = type_of_key(key[2])
        return MapType(ir.DataType.STRING if key[1] is str else ir.DataType.INT64, value or UNKNOWN)
    dtype, rank = key
    return TensorType(onnx_dtype(dtype), (None,) * rank)


def _allowed_types(schema: onnx.defs.OpSchema) -> dict[str, tuple[str, ...]]:
    named = {item.type_param_str: tuple(item.allowed_type_strs) for item in schema.type_constraints}
    return {formal.type_str: named.get(formal.type_str, (formal.type_str,)) for formal in schema.inputs}


def _preferred(dtype: ir.DataType, allowed: Sequence[str]) -> ir.DataType:
    """That type where it is allowed, else float32 for numbers, else the only one there is."""
    choices = [DTYPE_OF_NAME[name] for name in allowed if name in DTYPE_OF_NAME]
    if not choices or dtype in choices or dtype is ir.DataType.STRING:
        return dtype
    return ir.DataType.FLOAT if ir.DataType.FLOAT in choices else choices[0]
