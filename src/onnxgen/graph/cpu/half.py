"""Floating-point types narrower than float32: computed in float32, rounded back once.

float16 has NumPy loops and bfloat16, float8 and float4 have those of ml_dtypes, but a formula of several steps would
round after each of them, and sums would lose what float32 keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.graph.cpu.half_conversion import converted

NARROW_FLOATS = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        ml_dtypes.float4_e2m1fn,
    )
)
"""Element types that are computed in float32."""

_WIDEST_NARROW = max(dtype.itemsize for dtype in NARROW_FLOATS)  # a wider type need not be looked up


def widened(x: Any) -> Any:
    """The array in float32 when its type is narrow; anything else as it is."""
    if isinstance(x, np.ndarray) and x.dtype in NARROW_FLOATS:
        return converted(x, np.dtype(np.float32))
    return x


def computing_dtype(dtype: np.dtype) -> np.dtype:
    """The type that arithmetic on ``dtype`` is done in."""
    return np.dtype(np.float32) if dtype in NARROW_FLOATS else dtype


def widening(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose narrow inputs come as float32, and whose float32 results leave as its first input's type.

    Only for functions whose floating-point results all have the type of the first input. Results are one array or a
    tuple of arrays and None.
    """

    def wide(first: np.ndarray, *others: Any) -> Any:
        if first.dtype not in NARROW_FLOATS:
            return function(first, *others)
        results = function(widened(first), *map(widened, others))
        if isinstance(results, tuple):
            return tuple(_rounded(result, first.dtype) for result in results)
        return _rounded(results, first.dtype)

    return wide


def writing_wide(
    formula: Callable[..., Any], own_types: frozenset[np.dtype] = frozenset()
) -> Callable[..., None]:
    """The same for a formula ``(*inputs, y)`` that writes its result into its last argument.

    Args:
        formula: What computes and writes.
        own_types: Narrow types that it is given as they are.
    """
    widened_types = NARROW_FLOATS - own_types

    def write(*arguments: Any) -> None:
        first, y = arguments[0], arguments[-1]
        if first.itemsize > _WIDEST_NARROW or first.dtype not in widened_types:
            formula(*arguments)
            return
        wide = np.empty(y.shape, np.float32)
        formula(*map(widened, arguments[:-1]), wide)
        converted(wide, y.dtype, y)

    return write


def _rounded(result: Any, dtype: np.dtype) -> Any:
    return converted(result, dtype) if result is not None and result.dtype == np.float32 else result
