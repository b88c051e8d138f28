"""`OrtValue`: a value of a run, of any kind, as ONNX Runtime's API hands them around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnxgen.errors import CapabilityError, FeedError, StateError
from onnxgen.foundations.dlpack import CPU_DEVICE, from_dlpack, to_dlpack
from onnxgen.graph.ir.arrays import check_onnx_type, host_array
from onnxgen.graph.ir.types import (
    UNKNOWN,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    numpy_dtype,
    onnx_dtype,
    type_name,
)


class OrtValue:
    """A tensor, a sequence, a map, or an optional value that may be empty.

    Tensors share the memory of the array that they were made from. Make values with the class methods.

    Args:
        value: As kernels have it: an array, a list, a dictionary or None.
        kind: Its type where the value alone does not say it, as for empty sequences.

    Attributes:
        value: The same.
    """

    __slots__ = ("_kind", "value")

    def __init__(self, value: Any, kind: ValueType | None = None) -> None:
        self.value = value
        self._kind = kind

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor over the array's own memory; anything with ``__array__`` or ``__dlpack__`` will do.

        Raises:
            CapabilityError: the device is not the host.
            FeedError: arrays of that type are no tensors.
        """
        del vendor_id
        check_host(device_type, device_id)
        array = host_array(numpy_obj, "ortvalue_from_numpy")
        check_onnx_type(array, "ortvalue_from_numpy")
        return cls(array)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """A tensor over the array's memory whose elements are read as another type of the same size.

        Args:
            data: For instance ``uint16`` for bfloat16.
            onnx_element_type: A value of ``TensorProto.DataType``.

        Raises:
            FeedError: the sizes differ, or there is no such type.
        """
        dtype = element_dtype(onnx_element_type)
        if dtype == object or dtype.itemsize != data.dtype.itemsize:
            raise FeedError(
                f"elements of {data.dtype} have {data.dtype.itemsize} bytes and cannot be read as "
                f"{type_name(ir.DataType(onnx_element_type))}, which has {dtype.itemsize}"
            )
        return cls(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor of uninitialised memory (of empty texts for strings), to be written by a run.

        Args:
            shape: Its sizes.
            element_type: A NumPy or ml_dtypes type, or a value of ``TensorProto.DataType``.
            device_type: ``cpu``.
            device_id: 0.
            vendor_id: Has no meaning on the host.
        """
        del vendor_id
        check_host(device_type, device_id)
        dtype, sizes = element_dtype(element_type), tuple(map(int, shape))
        if min(sizes, default=0) < 0:
            raise FeedError(f"a tensor has no sizes below 0, found shape {list(sizes)}")
        return cls(np.full(sizes, "", object) if dtype == object else np.empty(sizes, dtype))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A tensor over the memory of another library's array, or of a capsule that nobody has consumed.

        Raises:
            CapabilityError: see `onnxgen.foundations.dlpack.from_dlpack`.
        """
        return cls(from_dlpack(data))

    def numpy(self) -> np.ndarray:
        """The tensor as an array over the same memory; types that NumPy lacks are those of ml_dtypes.

        Raises:
            StateError: this is no tensor, or an empty optional.
        """
        return self._tensor("numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if copy is None:
            return array if dtype is None else array.astype(dtype, copy=False)
        return np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the same memory, also for bfloat16, float8 and smaller types."""
        return to_dlpack(
            self._tensor("__dlpack__"), stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """``(1, 0)``: the host."""
        return CPU_DEVICE

    def update_inplace(self, data: Any) -> None:
        """Copy elements into this tensor's memory, which stays where it is.

        Raises:
            FeedError: the shape or the element type differs.
            StateError: this is no tensor, or its memory is read-only.
        """
        target = self._tensor("update_inplace")
        source = data.numpy() if isinstance(data, OrtValue) else host_array(data, "update_inplace")
        if source.shape != target.shape or source.dtype != target.dtype:
            raise FeedError(
                f"cannot copy {source.dtype}{list(source.shape)} into a value of {target.dtype}{list(target.shape)}: "
                "shape and type must be the same"
            )
        if not target.flags.writeable:
            raise StateError(
                "the memory of this value is read-only, it belongs to an array that must not change"
            )
        np.copyto(target, source)

    def data_type(self) -> str:
        """As ONNX Runtime writes it: ``tensor(float)``, ``seq(tensor(int64))``."""
        kind = self._type()
        return str(kind.element if isinstance(kind, OptionalType) else kind)

    def element_type(self) -> int:
        """The value of ``TensorProto.DataType`` for the elements of a tensor or of the tensors of a sequence."""
        kind = self._type()
        while isinstance(kind, OptionalType | SequenceType):
            kind = kind.element
        if not isinstance(kind, TensorType):
            raise StateError(f"a value of type {kind} has no element type")
        return int(kind.dtype)

    def shape(self) -> list[int]:
        """Sizes of a tensor.

        Raises:
            StateError: this is no tensor.
        """
        return list(self._tensor("shape()").shape)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of a tensor's elements in ONNX's form, where those of less than a byte are packed."""
        array = self._tensor("tensor_size_in_bytes()")
        if array.dtype == object:
            raise StateError("texts have no fixed size in bytes")
        return -(-array.size * onnx_dtype(array.dtype).bitwidth // 8)

    def data_ptr(self) -> int:
        """Address of the first element.

        Raises:
            StateError: this is no tensor, or one of strings.
        """
        array = self._tensor("data_ptr()")
        if array.dtype == object:
            raise StateError("a tensor of strings has no memory that others could read")
        return array.ctypes.data

    def device_name(self) -> str:
        """``cpu``: values that go in and out of sessions are on the host."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Whether this is a tensor, or an optional one."""
        kind = self._type()
        return isinstance(kind.element if isinstance(kind, OptionalType) else kind, TensorType)

    def is_tensor_sequence(self) -> bool:
        """Whether this is a list of tensors."""
        kind = self._type()
        return isinstance(kind, SequenceType) and isinstance(kind.element, TensorType)

    def is_sparse_tensor(self) -> bool:
        """Never: sparse tensors become dense ones when a model is loaded."""
        return False

    def has_value(self) -> bool:
        """False for an empty optional."""
        return self.value is not None

    def __repr__(self) -> str:
        shape = f", shape={self.shape()}" if isinstance(self.value, np.ndarray) else ""
        return f"OrtValue({self.data_type()}{shape})"

    def _type(self) -> ValueType:
        if isinstance(self.value, np.ndarray) or self._kind is None:
            return _type_of(self.value)
        return self._kind

    def _tensor(self, asked: str) -> np.ndarray:
        if isinstance(self.value, np.ndarray):
            return self.value
        found = "an empty optional" if self.value is None else self.data_type()
        raise StateError(f"{asked} is for tensors, this value is {found}; its content is in .value")


def element_dtype(element_type: Any) -> np.dtype:
    """The array type that a NumPy type or a number of ``TensorProto.DataType`` means.

    Raises:
        FeedError: it means none.
    """
    try:
        if isinstance(element_type, int):
            return numpy_dtype(ir.DataType(element_type))
        return numpy_dtype(onnx_dtype(np.dtype(element_type)))
    except (ValueError, TypeError) as cause:
        raise FeedError(f"{element_type!r} is not an element type of tensors: {cause}") from cause


def check_host(device_type: str, device_id: int) -> None:
    """Refuse devices that values of sessions cannot be on.

    Raises:
        CapabilityError: it is not the host.
    """
    if device_type.lower() != "cpu" or device_id != 0:
        raise CapabilityError(
            f"asked for device {device_type}:{device_id}; values that go in and out of a session are on the host, cpu:0"
        )


def _type_of(value: Any) -> ValueType:
    if isinstance(value, np.ndarray):
        return TensorType(onnx_dtype(value.dtype), value.shape)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return SequenceType(_type_of(items[0]) if items else UNKNOWN)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        key, item = next(iter(items.items()), (0, 0.0))
        key_type = ir.DataType.STRING if isinstance(key, str) else ir.DataType.INT64
        return MapType(key_type, _type_of(np.asarray(item)))
    return OptionalType(UNKNOWN)
