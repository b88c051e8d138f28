"""Sizes of values, where their types say them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxgen.graph.ir.types import Shape, TensorType, ValueType

_STRING_BYTES = 16
"""An assumption: strings are short."""


def whole_shape(value: ValueType | None) -> tuple[int, ...] | None:
    """The shape of a tensor; None unless every dimension is a number."""
    if not isinstance(value, TensorType) or value.shape is None:
        return None
    sizes = [dim for dim in value.shape if isinstance(dim, int)]
    return tuple(sizes) if len(sizes) == len(value.shape) else None


def num_elements(value: ValueType | None) -> int | None:
    """Elements of a tensor; None where the shape does not say."""
    shape = whole_shape(value)
    return None if shape is None else math.prod(shape)


def element_bits(dtype: ir.DataType) -> int | None:
    """Bits of an element; packed types count as packed: 4 for ``int4``."""
    if dtype is ir.DataType.STRING:
        return 8 * _STRING_BYTES
    if dtype is ir.DataType.UNDEFINED:
        return None
    return dtype.bitwidth


def num_bytes(value: ValueType | None) -> int | None:
    """Bytes of a tensor; 0 for a value that is left out, None where type or shape do not say."""
    if value is None:
        return 0
    count = num_elements(value)
    bits = element_bits(value.dtype) if isinstance(value, TensorType) else None
    return None if count is None or bits is None else (count * bits + 7) // 8


def total(parts: Sequence[int | None]) -> int | None:
    """The sum; None if a part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def product(dims: Shape | None) -> int | None:
    """The product of dimensions; None unless all are numbers."""
    if dims is None:
        return None
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(dims) else None
