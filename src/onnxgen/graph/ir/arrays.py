"""What callers hand in as tensors, as the arrays that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import FeedError
from onnxgen.foundations.dlpack import from_dlpack
from onnxgen.graph.ir.types import numpy_dtype, onnx_dtype, type_name

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple)
_STRING_KINDS = "OUST"


def is_plain(value: object) -> bool:
    """Whether a value has no element type of its own: a Python scalar, or a list of values."""
    return isinstance(value, _PLAIN) and not isinstance(value, np.generic)


def host_array(value: Any, what: str) -> np.ndarray:
    """An object that has an element type as an array, sharing memory where that is possible.

    Takes NumPy arrays and scalars and anything with ``__dlpack__`` or ``__array__``. Arrays of ``str``, ``bytes`` (UTF-8)
    and objects of those become ``object`` arrays of ``str``; other byte orders become the machine's.

    Raises:
        FeedError: the value is none of these, or its element type is none of ONNX; ``what`` names it in the message.
        CapabilityError: its memory is on a device, or its owner does not lend it.
    """
    array = _as_array(value, what)
    dtype = array.dtype
    if dtype.kind in _STRING_KINDS:
        return _strings(array, what)
    if dtype.isnative:
        return array
    return array.astype(dtype.newbyteorder("="))


def array_of(value: Any, dtype: ir.DataType, what: str) -> np.ndarray:
    """A Python scalar or nested list as an array of that element type.

    Integers may become floats; whatever would lose its value, as 1.5 for an integer, 300 for ``uint8`` or 1e39 for ``float``, does not.

    Raises:
        FeedError: the values do not fit, or the lists are not a rectangle.
    """
    try:
        if dtype is ir.DataType.STRING:
            return _strings(np.asarray(value, dtype=object), what)
        found, target = np.asarray(value), numpy_dtype(dtype)
        if found.size == 0:
            return np.empty(found.shape, target)
        if _fits(found, target):
            with np.errstate(over="raise", under="ignore", invalid="ignore"):
                return np.asarray(value, dtype=target)
    except (ValueError, TypeError, ArithmeticError) as cause:
        raise FeedError(f"{what}: {_short(value)} is not {type_name(dtype)}: {cause}") from cause
    raise FeedError(
        f"{what}: expected values of {type_name(dtype)}, found a list of {found.dtype}; convert it yourself if "
        "what gets lost does not matter"
    )


def default_dtype(value: Any) -> ir.DataType:
    """The element type that a Python scalar or list has where nothing says otherwise: int64, float, bool or string.

    Raises:
        FeedError: for anything else.
    """
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError as cause:
        raise FeedError(f"{_short(value)} is not a rectangle of values: {cause}") from cause
    kinds = {"b": ir.DataType.BOOL, "i": ir.DataType.INT64, "u": ir.DataType.UINT64, "f": ir.DataType.FLOAT}
    if kind in kinds:
        return kinds[kind]
    if kind in "US":
        return ir.DataType.STRING
    raise FeedError(f"{_short(value)} is not a scalar or a list of numbers, booleans or strings")


def _as_array(value: Any, what: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise FeedError(f"{what}: expected an array, found {type(value).__name__}")


def _fits(values: np.ndarray, target: np.dtype) -> bool:
    found = values.dtype
    if target.kind == "b":
        return found.kind == "b" or (found.kind in "iu" and bool(np.isin(values, (0, 1)).all()))
    if target.kind in "iu" or "int" in target.name:
        return found.kind in "biu"
    return found.kind in "biuf" or (found.kind == "c" and target.kind == "c")


def _strings(array: np.ndarray, what: str) -> np.ndarray:
    items = array.reshape(-1).tolist()
    if array.dtype == object and all(type(item) is str for item in items):
        return array
    flat = [_text(item, what) for item in items]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(array.shape)


def _text(item: object, what: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        try:
            return item.decode()
        except UnicodeDecodeError as cause:
            raise FeedError(f"{what}: {item!r} is not UTF-8: {cause}") from cause
    raise FeedError(
        f"{what}: expected strings, found a {type(item).__name__} among the objects: {_short(item)}; "
        "convert such arrays to str or to numbers first"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_onnx_type(array: np.ndarray, what: str) -> ir.DataType:
    """The ONNX element type of an array.

    Raises:
        FeedError: there is none (times, records).
    """
    try:
        return onnx_dtype(array.dtype)
    except ValueError as cause:
        raise FeedError(f"{what}: {cause}") from cause
