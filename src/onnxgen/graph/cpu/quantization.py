"""Linear quantization on arrays: per tensor, per axis, per block."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.team import share
from onnxgen.graph.ir.types import is_ml_dtype

_BYTES = frozenset({np.dtype(np.int8), np.dtype(np.uint8)})

_ELEMENTS_PER_S = 3e9
"""That one thread quantizes to bytes, roughly: to tell what is worth sharing."""

_FLOATS = {
    np.dtype(getattr(ml_dtypes, name))
    for name in dir(ml_dtypes)
    if name.startswith(("float", "bfloat")) and isinstance(getattr(ml_dtypes, name), type)
}


def is_float(dtype: np.dtype) -> bool:
    """Whether a type has floating-point elements, those of ml_dtypes included."""
    return dtype.kind == "f" or dtype in _FLOATS


def limits(dtype: np.dtype) -> tuple[float, float]:
    """The smallest and largest finite value of a quantized type."""
    if is_float(dtype):
        info = ml_dtypes.finfo(dtype)
        return float(info.min), float(info.max)
    integers = ml_dtypes.iinfo(dtype) if is_ml_dtype(dtype) else np.iinfo(dtype)
    return int(integers.min), int(integers.max)


def spread(parameter: np.ndarray, shape: tuple[int, ...], *, axis: int, block_size: int = 0) -> np.ndarray:
    """A scale or zero point in a form that broadcasts against a tensor of that shape.

    One element holds for the whole tensor, one axis of them for the slices along ``axis``, as many axes as the tensor
    has (with a ``block_size``) for blocks along ``axis``.

    Raises:
        KernelError: the tensor has no such axis.
    """
    if block_size < 0 or (parameter.size > 1 and not -len(shape) <= axis < len(shape)):
        raise KernelError(f"a tensor of shape {shape} has no axis {axis} of blocks of {block_size} elements")
    if block_size and parameter.ndim == len(shape) and parameter.ndim > 0:
        axis %= len(shape)
        repeated = np.repeat(parameter, block_size, axis)
        return repeated[(slice(None),) * axis + (slice(shape[axis]),)]
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1:
        return parameter.reshape(-1, *(1,) * (len(shape) - 1 - axis % len(shape)))
    return parameter


def quantize(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
    dtype: np.dtype,
    *,
    precision: np.dtype | None = None,
    saturate: bool = True,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """``saturate(round(x / scale) + zero_point)``; for float types the cast of the quotient.

    Args:
        x: Any real tensor.
        scale: Broadcasts against ``x``.
        zero_point: Broadcasts against ``x``.
        dtype: Type of the result.
        precision: Type of the division; by default that of ``scale``.
        saturate: Whether float8 types take their largest value where ``x`` is out of range, instead of NaN or infinity.
        out: Where the result goes, C-contiguous; a new array without.
    """
    kind = precision or scale.dtype
    low, high = limits(dtype)
    one_scale = scale.size == 1 and (zero_point is None or zero_point.size == 1)
    if one_scale and dtype in _BYTES and x.dtype == kind == np.float32:
        return _quantized_bytes(x, scale, zero_point, np.empty(x.shape, dtype) if out is None else out)
    with np.errstate(all="ignore"):
        ratio = x.astype(kind, copy=False) / scale.astype(kind, copy=False)
        wide = np.asarray(ratio).astype(np.float64 if kind == np.float64 else np.float32, copy=False)
        if not is_float(dtype):
            np.rint(wide, out=wide)
        if zero_point is not None and zero_point.any():
            wide += zero_point.astype(wide.dtype)
        if saturate or not is_float(dtype):
            np.clip(wide, low, high, out=wide)
        if out is None:
            return wide.astype(dtype)
        out[...] = wide.astype(dtype)
        return out


def _quantized_bytes(
    x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray | None, y: np.ndarray
) -> np.ndarray:
    from onnxgen.graph.cpu.compiled.quantizing import PART, quantizing

    share(
        quantizing(y.dtype),
        np.ascontiguousarray(x).reshape(-1),
        np.float32(scale.reshape(())),
        np.float32(0 if zero_point is None else zero_point.reshape(())),
        *map(np.float32, limits(y.dtype)),
        y.reshape(-1),
        parts=-(-x.size // PART),
        seconds=x.size / _ELEMENTS_PER_S,
    )
    return y


def dequantize(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
    *,
    dtype: np.dtype | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """``(x - zero_point) * scale`` as ``dtype`` (by default that of ``scale``); both broadcast against ``x``."""
    dtype = dtype or scale.dtype
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    if x.dtype == np.int32 and zero_point is not None:
        x, zero_point = x.astype(np.int64) - zero_point, None
    y = out if out is not None and out.dtype == wide else np.empty(x.shape, wide)
    np.copyto(y, x, casting="unsafe")
    if zero_point is not None and zero_point.any():
        y -= zero_point.astype(wide)
    with np.errstate(all="ignore"):
        y *= scale.astype(wide, copy=False)
        if out is None:
            return y.astype(dtype, copy=False)
        if out is not y:
            out[...] = y.astype(dtype)
    return out


def requantize(
    x: np.ndarray, scale: np.ndarray | float, zero_point: np.ndarray | None, dtype: np.dtype
) -> np.ndarray:
    """``saturate(round(x * scale) + zero_point)`` for real numbers ``x`` that are already multiples of a scale."""
    low, high = limits(dtype)
    with np.errstate(all="ignore"):
        y = np.asarray(x * scale)
        if not is_float(dtype):
            y = np.asarray(np.rint(y))
        if zero_point is not None:
            y = y + zero_point.astype(y.dtype)
        return np.asarray(np.clip(y, low, high)).astype(dtype)


def dynamic_parameters(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale (float32) and zero point (uint8) that spread the range of ``x``, extended to 0, over uint8.

    A tensor of zeros, or an empty one, has scale 1. NaN has no part in the range, but of NaN alone the scale is NaN, as
    in ONNX Runtime.
    """
    low = np.minimum(0, np.fmin.reduce(x, axis=None)) if x.size else 0
    high = np.maximum(0, np.fmax.reduce(x, axis=None)) if x.size else 0
    scale = (np.float32(high) - np.float32(low)) / np.float32(255)
    scale = np.float32(1) if scale == 0 else scale
    with np.errstate(all="ignore"):
        zero = np.clip(np.nan_to_num(np.rint(-np.float32(low) / scale), nan=255), 0, 255)
    return np.asarray(scale, np.float32), np.asarray(zero).astype(np.uint8)
