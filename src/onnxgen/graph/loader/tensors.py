"""Tensors of protobufs as arrays, after checking that their data fit their dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from onnxgen.graph.ir.extents import Extent, set_extent
from onnxgen.graph.ir.types import numpy_dtype
from onnxgen.graph.loader.data_files import DataFiles

_MOST_BYTES = 2**62

_DataType = ir.DataType

_NARROW = {
    kind
    for kind in _DataType
    if kind.name.startswith(("FLOAT4", "FLOAT6", "FLOAT8", "INT2", "INT4", "INT8", "INT16", "UINT2", "UINT4", "UINT8"))
    or kind.name in ("UINT16", "FLOAT16", "BFLOAT16", "BOOL", "INT32")
}  # fmt: skip

_FIELD_TYPES: Mapping[str, set[ir.DataType]] = {
    "float_data": {_DataType.FLOAT, _DataType.COMPLEX64},
    "int32_data": _NARROW,
    "int64_data": {_DataType.INT64},
    "double_data": {_DataType.DOUBLE, _DataType.COMPLEX128},
    "uint64_data": {_DataType.UINT32, _DataType.UINT64},
    "string_data": {_DataType.STRING},
}


class TensorDefectError(Exception):
    """A tensor is not well formed; the message completes "tensor NAME ..."."""


def read_tensor(proto: onnx.TensorProto, files: DataFiles) -> ir.TensorProtocol:
    """The tensor; data in files stay there, everything else no longer refers to ``proto``.

    Raises:
        TensorDefectError: Its type, dimensions and data do not fit together.
        ModelFileError: Its file of external data is missing, too short, or outside of the model's folder.
    """
    dtype, dims = _element_type(proto), read_dims(proto.dims)
    if proto.HasField("segment"):
        raise TensorDefectError("is cut into segments, which no version of the format defines")
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return _external(proto, dtype, dims, files)
    if dtype is _DataType.STRING:
        return _strings(proto, dims)
    return ir.Tensor(_embedded(proto, dtype, dims), dtype, shape=ir.Shape(dims), name=proto.name)


def _element_type(proto: onnx.TensorProto) -> ir.DataType:
    try:
        dtype = _DataType(proto.data_type)
    except ValueError:
        raise TensorDefectError(f"has element type {proto.data_type}, which does not exist") from None
    if dtype is _DataType.UNDEFINED:
        raise TensorDefectError("has no element type")
    return dtype


def read_dims(stored: Iterable[int]) -> tuple[int, ...]:
    """Dimensions, after checking that they can be those of a tensor.

    Raises:
        TensorDefectError: One is negative, or their product is beyond any memory.
    """
    dims = tuple(stored)
    if any(dim < 0 for dim in dims):
        raise TensorDefectError(f"has dimensions {list(dims)}, which cannot be negative")
    if len(dims) > 64 or math.prod(dim or 1 for dim in dims) > _MOST_BYTES:
        raise TensorDefectError(f"has dimensions {_short(dims)}, more than any memory holds")
    return dims


def num_bytes(dtype: ir.DataType, dims: tuple[int, ...]) -> int:
    """Bytes of a tensor's elements as files store them: types below a byte share bytes; strings count as pointers."""
    bits = 64 if dtype is _DataType.STRING else dtype.bitwidth
    return (math.prod(dims) * bits + 7) // 8


def _embedded(proto: onnx.TensorProto, dtype: ir.DataType, dims: tuple[int, ...]) -> np.ndarray:
    fields = [name for name in _FIELD_TYPES if len(getattr(proto, name))]
    if proto.HasField("raw_data"):
        fields.append("raw_data")
    if len(fields) > 1:
        raise TensorDefectError(f"has its data twice, in {' and '.join(fields)}")
    expected = math.prod(dims)
    if not fields:
        if expected:
            raise TensorDefectError(f"has dimensions {_short(dims)} but no data")
        return np.empty(dims, numpy_dtype(dtype))
    (name,) = fields
    if name == "raw_data":
        raw = np.frombuffer(proto.raw_data, np.uint8)
        _check_count(raw.size, num_bytes(dtype, dims), "bytes of raw_data", dtype, dims)
        return from_bytes(raw, dtype, dims)
    if dtype not in _FIELD_TYPES[name]:
        raise TensorDefectError(f"of {dtype.name} has its data in {name}, which does not hold that type")
    found = len(getattr(proto, name))
    if name == "int32_data" and dtype.bitwidth in (2, 4):
        expected = num_bytes(dtype, dims)
    elif dtype in (_DataType.COMPLEX64, _DataType.COMPLEX128):
        expected *= 2
    _check_count(found, expected, f"values in {name}", dtype, dims)
    return _from_values(proto, name, dtype, dims)


def _from_values(proto: onnx.TensorProto, name: str, dtype: ir.DataType, dims: tuple[int, ...]) -> np.ndarray:
    stored = {
        "float_data": np.float32,
        "int32_data": np.int32,
        "int64_data": np.int64,
        "double_data": np.float64,
        "uint64_data": np.uint64,
    }[name]
    values = np.array(getattr(proto, name), stored)
    if dtype in (_DataType.COMPLEX64, _DataType.COMPLEX128):
        return values.view(numpy_dtype(dtype)).reshape(dims)
    if name != "int32_data" or dtype is _DataType.INT32:
        return values.astype(numpy_dtype(dtype), copy=False).reshape(dims)
    if dtype.bitwidth in (2, 4):
        return from_bytes(values.astype(np.uint8), dtype, dims)
    if dtype is _DataType.BOOL:
        return (values != 0).reshape(dims)
    # the low bits of each value are the element's
    return (
        values.astype(np.uint16 if dtype.bitwidth == 16 else np.uint8).view(numpy_dtype(dtype)).reshape(dims)
    )


def _strings(proto: onnx.TensorProto, dims: tuple[int, ...]) -> ir.StringTensor:
    if proto.HasField("raw_data"):
        raise TensorDefectError("of STRING has its data in raw_data, which does not hold that type")
    strings = list(proto.string_data)
    _check_count(len(strings), math.prod(dims), "strings", _DataType.STRING, dims)
    return ir.StringTensor(strings, shape=ir.Shape(dims), name=proto.name)


def _external(
    proto: onnx.TensorProto, dtype: ir.DataType, dims: tuple[int, ...], files: DataFiles
) -> ir.TensorProtocol:
    entries = {entry.key: entry.value for entry in proto.external_data}
    if dtype is _DataType.STRING:
        raise TensorDefectError("of STRING is in a file of external data, which cannot hold strings")
    if not entries.get("location"):
        raise TensorDefectError("is in a file of external data, but it is not said in which")
    offset, needed = _whole_number(entries, "offset", 0), num_bytes(dtype, dims)
    length = _whole_number(entries, "length", needed)
    if length != needed:
        raise TensorDefectError(
            f"of {dtype.name}{list(dims)} takes {needed} bytes, but is said to take {length} of {entries['location']!r}"
        )
    shape = ir.Shape(dims)
    if not needed:
        return ir.Tensor(np.empty(dims, numpy_dtype(dtype)), dtype, shape=shape, name=proto.name)
    raw = files.extent(entries["location"], offset, needed, tensor=proto.name)
    tensor = _mapped(proto.name, raw, dtype, dims, aligned=offset % max(1, dtype.bitwidth // 8) == 0)
    set_extent(tensor, Extent(entries["location"], offset))
    return tensor


def _mapped(
    name: str, raw: np.ndarray, dtype: ir.DataType, dims: tuple[int, ...], *, aligned: bool
) -> ir.TensorProtocol:
    shape = ir.Shape(dims)
    if dtype.bitwidth >= 8 and dtype is not _DataType.BOOL and aligned:
        return ir.Tensor(from_bytes(raw, dtype, dims), dtype, shape=shape, name=name)
    # unpacking and aligning make copies, so they wait until somebody asks
    return ir.LazyTensor(
        lambda: ir.Tensor(np.require(from_bytes(raw, dtype, dims), requirements="A"), dtype),
        dtype=dtype,
        shape=shape,
        name=name,
        cache=True,
    )


def from_bytes(raw: np.ndarray, dtype: ir.DataType, dims: tuple[int, ...]) -> np.ndarray:
    """Elements from the little-endian bytes that files store; a view where elements are whole bytes other than bool."""
    if dtype.bitwidth < 8:
        return ir.PackedTensor(raw, dtype, shape=ir.Shape(dims)).numpy()
    if dtype is _DataType.BOOL:
        return (raw != 0).reshape(dims)
    array = raw.view(numpy_dtype(dtype).newbyteorder("<")).reshape(dims)
    return array.astype(numpy_dtype(dtype), copy=False)


def _whole_number(entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise TensorDefectError(
            f"has {key} {text[:40]!r} in its file of external data; it must be a whole number"
        )
    return int(text)


def _check_count(found: int, expected: int, what: str, dtype: ir.DataType, dims: tuple[int, ...]) -> None:
    if found != expected:
        raise TensorDefectError(f"of {dtype.name}{_short(dims)} has {found} {what}, expected {expected}")


def _short(dims: tuple[int, ...]) -> str:
    return (
        str(list(dims)) if len(dims) <= 8 else f"[{', '.join(map(str, dims[:8]))}, ...] ({len(dims)} of them)"
    )
