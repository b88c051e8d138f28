"""What the storage formats of matrices are called, in reports, manifests and facts of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ZeroPoints(Enum):
    """What is in the middle of a block's codes; the values are how it is called."""

    SYMMETRIC = "symmetric"
    INTEGER = "zero points"
    FLOAT = "float zero points"


def block_format(bits: int, block_size: int, zero_points: ZeroPoints) -> str:
    """The name of a format of quantized blocks, such as ``int4 block 32 symmetric``."""
    return f"int{bits} block {block_size} {zero_points.value}"


def count_float_zero_points(formats: Mapping[str, int]) -> int:
    """How many matrices have zero points in floating point, of formats and how many matrices have each."""
    return sum(count for name, count in formats.items() if name.endswith(ZeroPoints.FLOAT.value))
