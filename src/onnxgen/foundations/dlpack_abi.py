"""The C side of DLPack 1.x: its structures, its codes of element types, and capsules.

Source: ``dlpack.h`` of the DLPack standard, versions 0.8 (``DLManagedTensor``) and 1.1 (``DLManagedTensorVersioned``).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

VERSION = (1, 1)
"""The newest version written here. Readers accept every minor version of the same major one."""

CPU = 1
HOST_DEVICES = {CPU: "cpu", 3: "CUDA host memory", 11: "ROCm host memory"}
"""Device types whose memory this process can read."""

DEVICES = {
    2: "CUDA",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    13: "CUDA managed memory",
    14: "oneAPI",
}
"""Names of others, for messages."""

READ_ONLY = 1
IS_COPIED = 2
SUBBYTE_PADDED = 4
"""Each element of less than eight bits has a byte of its own, as in ml_dtypes; packed without this flag."""

OLD_NAME = b"dltensor"
NEW_NAME = b"dltensor_versioned"
USED = {OLD_NAME: b"used_dltensor", NEW_NAME: b"used_dltensor_versioned"}

_ML_CODES = {
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float6_e2m3fn": 15,
    "float6_e3m2fn": 16, "float4_e2m1fn": 17, "int2": 0, "int4": 0, "uint2": 1, "uint4": 1,
}  # fmt: skip
_NUMPY_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NUMPY_TYPES = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool"
)


class DLDevice(ctypes.Structure):
    """Where memory is."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """What an element is."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """Memory with a shape. ``strides`` count elements and may be NULL, which means C-contiguous."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""``void deleter(managed_tensor)``; the consumer calls it once, when it no longer needs the memory."""


class DLManagedTensor(ctypes.Structure):
    """A tensor and what gives it back; in capsules named ``dltensor``."""

    _fields_ = (("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", DELETER))


class DLManagedTensorVersioned(ctypes.Structure):
    """The same with a version and flags; in capsules named ``dltensor_versioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


MANAGED: dict[bytes, type[DLManagedTensor | DLManagedTensorVersioned]] = {
    OLD_NAME: DLManagedTensor,
    NEW_NAME: DLManagedTensorVersioned,
}

CAPSULE_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python_function(name: str, result: Any, *arguments: Any) -> Any:
    # a function object of its own: those of ctypes.pythonapi are shared with every other user of ctypes
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = _python_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, CAPSULE_DESTRUCTOR
)
"""``(pointer, name, destructor) -> capsule``; the name must outlive it."""

is_capsule = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
capsule_pointer = _python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
rename_capsule = _python_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

# the same for capsules that are being destroyed, of which no Python reference may be made any more
is_dying_capsule = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
dying_capsule_pointer = _python_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
)

keep_alive = _python_function("Py_IncRef", None, ctypes.py_object)
let_go = _python_function("Py_DecRef", None, ctypes.c_void_p)


@cache
def dtype_of(code: int, bits: int) -> np.dtype | None:
    """The NumPy or ml_dtypes type of a DLPack one; None where there is none."""
    return next((dtype for dtype in _known_dtypes() if (code, bits) == code_of(dtype)), None)


@cache
def code_of(dtype: np.dtype) -> tuple[int, int] | None:
    """DLPack's ``(code, bits)`` of a NumPy or ml_dtypes type; None where there is none."""
    if dtype.name in _ML_CODES and dtype.type.__module__ == ml_dtypes.__name__:
        return _ML_CODES[dtype.name], bits_of(dtype)
    if dtype.kind in _NUMPY_CODES and dtype.isnative and dtype.type.__module__ == np.__name__:
        return _NUMPY_CODES[dtype.kind], dtype.itemsize * 8
    return None


def bits_of(dtype: np.dtype) -> int:
    """Bits that carry an element; fewer than those of its bytes for the small types of ml_dtypes."""
    if dtype.type.__module__ != ml_dtypes.__name__:
        return dtype.itemsize * 8
    kind = dtype.name.partition("_")[0]
    return int(kind.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _known_dtypes() -> list[np.dtype]:
    small = (np.dtype(getattr(ml_dtypes, name)) for name in _ML_CODES if hasattr(ml_dtypes, name))
    return [*map(np.dtype, _NUMPY_TYPES.split()), *small]
