"""Conversion between element types, as Cast has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import NARROW_FLOATS
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.ir.types import is_ml_dtype

STRINGS = np.dtype(object)

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
_SATURATING = frozenset(
    np.dtype(kind)
    for kind in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)
_E8M0_NAN, _E8M0_MAX, _E8M0_BIAS = 255, 254, 127
_ROUND_UP: dict[str, Callable[[np.ndarray], Any]] = {
    # which mantissas in [0.5, 1) belong to the next power of two
    "up": lambda mantissa: mantissa > 0.5,
    "down": lambda mantissa: False,
    "nearest": lambda mantissa: mantissa >= 0.75,
}


def cast(x: np.ndarray, to: np.dtype, *, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """The elements in another type: always a new array.

    Args:
        x: Any tensor; strings are ``object`` arrays.
        to: The wanted type; `STRINGS` for strings.
        saturate: Whether what a float8 cannot hold becomes its extreme, instead of infinity or NaN.
        round_mode: ``up``, ``down`` or ``nearest``, for float8e8m0.

    Raises:
        KernelError: for a string that is no number, and for an unknown mode.
    """
    if x.dtype == STRINGS:
        return (
            x.copy() if to == STRINGS else cast(_numbers(x, to), to, saturate=saturate, round_mode=round_mode)
        )
    if to == STRINGS:
        return _texts(x)
    if to.kind == "b":
        return np.asarray(x != 0)
    if to == _E8M0 and x.dtype != _E8M0:
        return to_float8e8m0(x, saturate=saturate, round_mode=round_mode)
    if to in _SATURATING and saturate and x.dtype != to:
        limit = float(ml_dtypes.finfo(to).max)
        wide = x.astype(np.float32) if x.dtype in NARROW_FLOATS else x
        return np.clip(wide.astype(np.float64), -limit, limit).astype(to)
    if is_ml_dtype(x.dtype) and x.dtype != to:  # ml_dtypes knows no way between some of its types
        return x.astype(np.float32 if x.dtype in NARROW_FLOATS else np.int32).astype(to)
    return converted(x, to)


def to_float8e8m0(x: np.ndarray, *, saturate: bool, round_mode: str) -> np.ndarray:
    """Powers of two: the exponent of the magnitude, rounded as ``round_mode`` says (OCP MX v1.0, Cast-24)."""
    if round_mode not in _ROUND_UP:
        raise KernelError(f"round_mode {round_mode!r} is none of {', '.join(_ROUND_UP)}")
    magnitude = np.abs(x.astype(np.float32) if x.dtype in NARROW_FLOATS else x.astype(np.float64))
    mantissa, exponent = np.frexp(magnitude)
    code = np.where(mantissa == 0, -1, exponent - 1 + _E8M0_BIAS + _ROUND_UP[round_mode](mantissa))
    code = np.where(np.isinf(magnitude), _E8M0_NAN, code)
    if saturate:
        code = np.clip(code, 0, _E8M0_MAX)
    outside = np.isnan(magnitude) | (code < 0) | (code > _E8M0_MAX)
    return np.where(outside, _E8M0_NAN, code).astype(np.uint8).view(_E8M0)


def _texts(x: np.ndarray) -> np.ndarray:
    """Plain decimal forms: the shortest that names the number in its own type."""
    if is_ml_dtype(x.dtype):
        x = x.astype(np.float32 if x.dtype in NARROW_FLOATS else np.int8)
    return x.astype(str).astype(object)


def _numbers(x: np.ndarray, to: np.dtype) -> np.ndarray:
    """Strings as numbers: integers exactly where they are written so, otherwise through float64."""
    whole = to.kind in "iu"
    try:
        numbers = [_integer(text) if whole else float(text) for text in x.reshape(-1).tolist()]
    except (ValueError, OverflowError) as cause:
        raise KernelError(f"Cast to {to}: {cause}") from cause
    if not whole:
        return np.array(numbers, np.float64).reshape(x.shape)
    mask, signed = (1 << 64) - 1, to.kind == "i"
    bits = np.array([int(number) & mask for number in numbers], np.uint64)
    return (bits.view(np.int64) if signed else bits).reshape(x.shape)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))
