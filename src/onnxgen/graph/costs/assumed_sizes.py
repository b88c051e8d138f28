"""Sizes to compare kernels at, for dimensions that only a run knows."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgen.graph.ir.types import OptionalType, SequenceType, TensorType, ValueType

ASSUMED_SIZE = 64
"""What a symbol counts as: neither the one token of a decode step nor a whole prompt."""


def at_assumed_sizes(types: Iterable[ValueType | None]) -> tuple[ValueType | None, ...]:
    """Types with `ASSUMED_SIZE` for each dimension that is no number; unknown ranks stay unknown."""
    return tuple(None if value is None else _assumed(value) for value in types)


def _assumed(value: ValueType) -> ValueType:
    if isinstance(value, TensorType) and value.shape is not None:
        dims = tuple(dim if isinstance(dim, int) else ASSUMED_SIZE for dim in value.shape)
        return TensorType(value.dtype, dims)
    if isinstance(value, SequenceType | OptionalType):
        return type(value)(_assumed(value.element))
    return value
