"""Types of values: tensors with symbolic shapes, and the containers around them."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError

Dim = int | str | None
"""One dimension: its size, a symbolic expression such as ``"past + seq"``, or None where nothing is known."""

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor. ``dtype`` is ``UNDEFINED`` where inference found none; ``shape`` is None where the rank is unknown."""

    dtype: ir.DataType
    shape: Shape | None = None

    def __str__(self) -> str:
        """As ONNX Runtime writes it, without the shape: ``tensor(float)``."""
        return f"tensor({type_name(self.dtype)})"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A list of values of one type."""

    element: ValueType

    def __str__(self) -> str:
        """``seq(tensor(float))``."""
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of that type, or None."""

    element: ValueType

    def __str__(self) -> str:
        """``optional(tensor(float))``."""
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A dictionary (outputs of ``ai.onnx.ml`` operators)."""

    key: ir.DataType
    value: ValueType

    def __str__(self) -> str:
        """``map(int64,tensor(float))``."""
        return f"map({type_name(self.key)},{self.value})"


ValueType = TensorType | SequenceType | OptionalType | MapType

UNKNOWN = TensorType(ir.DataType.UNDEFINED, None)
"""A value of which nothing is known."""

DECLARED_TYPE = "onnxgen.declared_type"
"""Key in ``onnx_ir.Value.meta`` of a type that onnx-ir cannot hold because it has a map in it."""

_TYPE_NAMES = {
    ir.DataType.FLOAT: "float",
    ir.DataType.DOUBLE: "double",
    ir.DataType.BOOL: "bool",
    ir.DataType.STRING: "string",
}

_DTYPES_BY_NAME = {_TYPE_NAMES.get(dtype, dtype.name.lower()): dtype for dtype in ir.DataType}


def type_name(dtype: ir.DataType) -> str:
    """The name ONNX Runtime prints for an element type: ``float``, ``int64``, ``float8e4m3fn``."""
    return _TYPE_NAMES.get(dtype, dtype.name.lower())


def dtype_named(type_text: str) -> ir.DataType | None:
    """The element type in ``tensor(float)``; None for other texts."""
    name = type_text.removeprefix("tensor(").removesuffix(")")
    if type_text != f"tensor({name})":
        return None
    return _DTYPES_BY_NAME.get(name)


def numpy_dtype(dtype: ir.DataType) -> np.dtype:
    """The NumPy type that holds elements of ``dtype``: of ml_dtypes where NumPy has none, ``object`` for strings.

    Raises:
        InvalidGraphError: when there is none.
    """
    if dtype is ir.DataType.STRING:
        return np.dtype(object)
    try:
        return np.dtype(dtype.numpy())
    except (TypeError, KeyError) as cause:
        raise InvalidGraphError(f"element type {dtype.name} has no array form here") from cause


def onnx_dtype(dtype: np.dtype) -> ir.DataType:
    """The ONNX element type of arrays of that NumPy type; ``object``, ``str`` and ``bytes`` arrays are strings.

    Raises:
        InvalidGraphError: when there is none.
    """
    if dtype.kind in "OUST":
        return ir.DataType.STRING
    try:
        return ir.DataType.from_numpy(dtype)
    except (TypeError, KeyError) as cause:
        raise InvalidGraphError(f"arrays of NumPy type {dtype} have no ONNX element type") from cause


def is_ml_dtype(dtype: np.dtype) -> bool:
    """Whether NumPy itself cannot compute with that type (bfloat16, float8, int4 and smaller)."""
    return dtype.type.__module__ == ml_dtypes.__name__ or dtype.kind == "V"
