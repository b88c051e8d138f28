"""Values as onnx.reference has them, and as kernels hand them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import SequenceType, TensorType, ValueType, numpy_dtype


def to_reference(value: Any) -> Any:
    """Strings become NumPy's own; everything else is the same there."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.astype(np.str_)
    if isinstance(value, list):
        return [to_reference(item) for item in value]
    return value


def from_reference(value: Any, declared: ValueType | None, inputs: Sequence[Any]) -> Any:
    """An output as kernels return it.

    Args:
        value: What onnx.reference returned.
        declared: The output's type, which decides the element type where onnx.reference has another.
        inputs: The kernel's inputs; an output that is one of them, or a view, is copied.
    """
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list):
        element = declared.element if isinstance(declared, SequenceType) else None
        lent = [array for array in inputs if isinstance(array, np.ndarray)]
        return [from_reference(item, element, lent) for item in value]
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return strings(array)
    if isinstance(declared, TensorType) and declared.dtype is not ir.DataType.UNDEFINED:
        array = array.astype(numpy_dtype(declared.dtype), copy=False)
    return array.copy() if any(_may_share(array, other) for other in inputs) else array


def strings(array: np.ndarray) -> np.ndarray:
    """An array of any kind of strings as an ``object`` array of ``str``."""
    result = np.empty(array.shape, object)
    flat = [item.decode() if isinstance(item, bytes) else str(item) for item in array.reshape(-1)]
    result.reshape(-1)[:] = flat
    return result


def _may_share(array: np.ndarray, other: Any) -> bool:
    if isinstance(other, list):
        return any(_may_share(array, item) for item in other)
    return isinstance(other, np.ndarray) and np.may_share_memory(array, other)
