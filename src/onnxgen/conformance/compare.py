"""Whether what came out is what the standard expects."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from onnxgen.graph.ir.types import is_ml_dtype


class MismatchError(Exception):
    """What came out differs; the message says how."""


def check_value(
    found: Any, expected: Any, *, rtol: float, atol: float, where: str, values: bool = True
) -> None:
    """Compare one value; ``values=False`` compares kinds, shapes and element types only.

    Raises:
        MismatchError: saying where and how they differ.
    """
    if isinstance(expected, list):
        _check_sequence(found, cast("list[Any]", expected), rtol=rtol, atol=atol, where=where, values=values)
    elif isinstance(expected, dict):
        _check_map(found, cast("dict[Any, Any]", expected), rtol=rtol, atol=atol, where=where, values=values)
    elif isinstance(expected, np.ndarray):
        _check_array(found, expected, rtol=rtol, atol=atol, where=where, values=values)
    elif isinstance(expected, float) and isinstance(found, float):
        _check_array(np.array(found), np.array(expected), rtol=rtol, atol=atol, where=where, values=values)
    elif found != expected:
        raise MismatchError(f"{where}: {found!r}, expected {expected!r}")


def _check_sequence(found: Any, expected: list[Any], *, where: str, **how: Any) -> None:
    if not isinstance(found, list):
        raise MismatchError(f"{where}: {type(found).__name__}, expected a sequence")
    items = cast("list[Any]", found)
    if len(items) != len(expected):
        raise MismatchError(f"{where}: {len(items)} elements, expected {len(expected)}")
    for index, (one, other) in enumerate(zip(items, expected, strict=True)):
        check_value(one, other, where=f"{where}[{index}]", **how)


def _check_map(found: Any, expected: dict[Any, Any], *, where: str, **how: Any) -> None:
    if not isinstance(found, dict):
        raise MismatchError(f"{where}: {type(found).__name__}, expected a map")
    values = cast("dict[Any, Any]", found)
    if values.keys() != expected.keys():
        raise MismatchError(f"{where}: keys {list(values)}, expected {list(expected)}")
    for key, value in expected.items():
        check_value(values[key], value, where=f"{where}[{key!r}]", **how)


def _check_array(
    found: Any, expected: np.ndarray, *, rtol: float, atol: float, where: str, values: bool
) -> None:
    if not isinstance(found, np.ndarray):
        raise MismatchError(f"{where}: {type(found).__name__}, expected a tensor")
    if found.shape != expected.shape:
        raise MismatchError(f"{where}: shape {list(found.shape)}, expected {list(expected.shape)}")
    strings = expected.dtype == object
    if found.dtype != expected.dtype and not (strings and found.dtype.kind in "OUS"):
        raise MismatchError(f"{where}: element type {found.dtype}, expected {expected.dtype}")
    if not values:
        return
    if strings:
        wrong = [_text(item) for item in found.flat] != [_text(item) for item in expected.flat]
    else:
        wrong = not np.allclose(plain(found), plain(expected), rtol=rtol, atol=atol, equal_nan=True)
    if wrong:
        raise MismatchError(f"{where}: {_worst(found, expected)}")


def plain(array: np.ndarray) -> np.ndarray:
    """An array that NumPy can subtract: types of ml_dtypes become float32."""
    return array.astype(np.float32) if is_ml_dtype(array.dtype) else array


def _worst(found: np.ndarray, expected: np.ndarray) -> str:
    if expected.dtype.kind not in "fiu":
        return "values differ"
    with np.errstate(all="ignore"):
        difference = np.abs(plain(found).astype(np.float64) - plain(expected).astype(np.float64))
    index = np.unravel_index(np.nanargmax(np.nan_to_num(difference, nan=np.inf)), difference.shape)
    return f"{found[index]} at {[int(i) for i in index]}, expected {expected[index]}"


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
