"""Arrays from and to other libraries without copying, by the DLPack protocol.

NumPy's own half of the protocol knows neither bfloat16 nor float8 and smaller types; this one does.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from onnxgen.errors import CapabilityError
from onnxgen.foundations import dlpack_abi as abi
from onnxgen.foundations.packed_bits import pack, unpack

CPU_DEVICE = (abi.CPU, 0)
"""What ``__dlpack_device__`` of host memory says."""


def from_dlpack(source: Any) -> np.ndarray:
    """The memory of another library's array as a NumPy array.

    The array shares the memory and keeps it alive; it is read-only where its owner says so. Elements of less than a
    byte that are packed have no NumPy form and are copied, one to a byte.

    Args:
        source: Anything with ``__dlpack__`` (PyTorch, JAX, CuPy, NumPy ...), or a capsule that nobody has consumed yet.

    Raises:
        CapabilityError: the memory is not on the host, its element type is unknown here, or its owner refuses.
        TypeError: ``source`` is neither.
    """
    if hasattr(source, "__dlpack_device__"):
        _check_device(source.__dlpack_device__()[0])
    capsule = _export(source) if hasattr(source, "__dlpack__") else source
    for name, struct in abi.MANAGED.items():
        if abi.is_capsule(capsule, name):
            return _take(capsule, name, struct)
    raise TypeError(
        f"expected an object with __dlpack__ or an unused DLPack capsule, found {type(source).__name__}"
    )


def to_dlpack(
    array: np.ndarray,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule that lends the array's memory; the body of a ``__dlpack__`` method, with its arguments.

    Elements of less than a byte are lent as they are, one to a byte, where the consumer reads DLPack 1.1, and
    copied into packed form otherwise, as older versions mean it.

    Raises:
        BufferError: as the protocol wants it, when the array cannot be lent that way.
    """
    if stream is not None:
        raise BufferError(f"host memory has no stream to wait for, asked for {stream!r}; pass None")
    if dl_device is not None and tuple(dl_device) != CPU_DEVICE:
        raise BufferError(f"asked for device {dl_device}, the memory is on the host, {CPU_DEVICE}")
    code = abi.code_of(array.dtype)
    if code is None:
        raise BufferError(f"DLPack has no element type for arrays of {array.dtype}")
    versioned = max_version is not None and max_version[0] >= 1
    flags = 0
    if copy:
        array, flags = array.copy(), abi.IS_COPIED
    if not array.flags.writeable:
        if not versioned:
            raise BufferError("the array is read-only, which DLPack before 1.0 cannot say; ask for a copy")
        flags |= abi.READ_ONLY
    if any(step % array.itemsize for step in array.strides):
        raise BufferError(
            f"strides of {array.strides} bytes are not multiples of the {array.itemsize} bytes of an element"
        )
    shape, data, bits = array.shape, array, code[1]
    if bits < 8:
        if versioned and tuple(max_version or ()) >= (1, 1):
            flags |= abi.SUBBYTE_PADDED
        elif copy is False or bits not in (2, 4):
            raise BufferError(
                f"{array.dtype} would have to be packed, which takes a copy and widths of 2 or 4 bits"
            )
        else:
            data, flags = pack(array.view(np.uint8), bits), flags | abi.IS_COPIED
    return _lend(data, shape, code, flags if versioned else None)


def _export(source: Any) -> Any:
    try:
        try:
            return source.__dlpack__(max_version=abi.VERSION)
        except TypeError:  # a producer from before DLPack 1.0
            return source.__dlpack__()
    except BufferError as cause:
        raise CapabilityError(f"{type(source).__name__} does not lend its memory: {cause}") from cause


def _check_device(device_type: int) -> None:
    if int(device_type) not in abi.HOST_DEVICES:
        name = abi.DEVICES.get(int(device_type), f"DLPack type {int(device_type)}")
        raise CapabilityError(
            f"expected memory of the host, found a device's ({name}); copy it to the host first, "
            "or run where an execution provider of that device is installed"
        )


class _Borrowed:
    """Memory of another library under NumPy's array interface; gives it back when the last array over it is gone."""

    def __init__(self, managed: Any, interface: dict[str, Any]) -> None:
        self._managed = managed
        self.__array_interface__ = interface

    def __del__(self) -> None:
        _give_back(self._managed)


def _take(capsule: Any, name: bytes, struct: type[Any]) -> np.ndarray:
    managed = struct.from_address(abi.capsule_pointer(capsule, name))
    versioned = struct is abi.DLManagedTensorVersioned
    if versioned and managed.major != abi.VERSION[0]:
        # only the place of the deleter is known of another major version: leave the capsule to its owner
        raise CapabilityError(
            f"the array is described by DLPack {managed.major}.{managed.minor}, this is {abi.VERSION[0]}.x"
        )
    tensor: abi.DLTensor = managed.tensor
    flags = managed.flags if versioned else 0
    _check_device(tensor.device.device_type)
    dtype = _dtype(tensor.dtype)
    bits = tensor.dtype.bits
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    packed = bits < 8 and not flags & abi.SUBBYTE_PADDED
    if packed and (bits not in (2, 4) or not _is_contiguous(shape, strides)):
        raise CapabilityError(f"packed elements of {bits} bits with strides {strides} cannot be read here")
    if packed and tensor.dtype.lanes > 1:
        shape, strides = (*shape, tensor.dtype.lanes), None
    count = int(np.prod(shape, dtype=np.int64))
    abi.rename_capsule(capsule, abi.USED[name])  # from here on the memory is ours to give back
    if count == 0:
        _give_back(managed)
        return np.empty(shape, dtype)
    storage = np.dtype(np.uint8) if packed else dtype
    interface: dict[str, Any] = {
        "version": 3,
        "data": (tensor.data + tensor.byte_offset, bool(flags & abi.READ_ONLY)),
        "shape": (-(-count * bits // 8),) if packed else shape,
        "strides": None if packed or strides is None else tuple(step * storage.itemsize for step in strides),
        "typestr": storage.str if storage.isbuiltin == 1 else f"<u{storage.itemsize}",
    }
    array = np.asarray(_Borrowed(managed, interface))
    if packed:
        return unpack(array, bits, count).view(dtype).reshape(shape)
    return array if array.dtype == dtype else array.view(dtype)


def _dtype(found: abi.DLDataType) -> np.dtype:
    dtype = abi.dtype_of(found.code, found.bits)
    if dtype is None or (found.lanes != 1 and found.bits >= 8):
        raise CapabilityError(
            f"elements of DLPack code {found.code}, {found.bits} bits and {found.lanes} lanes have no array form here"
        )
    return dtype


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(strides or ()), strict=False):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _give_back(managed: Any) -> None:
    if managed.deleter:
        managed.deleter(ctypes.addressof(managed))


class _Loan:
    """What a capsule points to; alive until the consumer calls the deleter."""

    __slots__ = ("array", "managed", "shape", "strides")

    array: np.ndarray
    managed: abi.DLManagedTensor | abi.DLManagedTensorVersioned
    shape: ctypes.Array[ctypes.c_int64]
    strides: ctypes.Array[ctypes.c_int64]


def _lend(data: np.ndarray, shape: tuple[int, ...], code: tuple[int, int], flags: int | None) -> Any:
    loan = _Loan()
    loan.array = data
    dims = ctypes.c_int64 * len(shape)
    loan.shape = dims(*shape)
    in_place = data.shape == shape
    loan.strides = (
        dims(*(step // data.itemsize for step in data.strides)) if in_place else dims(*_dense(shape))
    )
    name = abi.OLD_NAME if flags is None else abi.NEW_NAME
    managed = loan.managed = abi.MANAGED[name]()
    tensor: abi.DLTensor = managed.tensor
    tensor.data = data.ctypes.data
    tensor.device.device_type, tensor.device.device_id = CPU_DEVICE
    tensor.ndim = len(shape)
    tensor.dtype.code, tensor.dtype.bits = code
    tensor.dtype.lanes = 1
    tensor.shape = ctypes.cast(loan.shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(loan.strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _DELETERS[name]
    managed.manager_ctx = id(loan)
    if isinstance(managed, abi.DLManagedTensorVersioned):
        managed.major, managed.minor = abi.VERSION
        managed.flags = flags
    abi.keep_alive(loan)
    return abi.new_capsule(ctypes.addressof(managed), name, _destroy_capsule)


def _dense(shape: tuple[int, ...]) -> list[int]:
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


def _deleter(struct: type[Any]) -> Any:
    @abi.DELETER
    def end_loan(address: int) -> None:
        abi.let_go(struct.from_address(address).manager_ctx)

    return end_loan


_DELETERS = {name: _deleter(struct) for name, struct in abi.MANAGED.items()}


@abi.CAPSULE_DESTRUCTOR
def _destroy_capsule(capsule: int) -> None:
    for name in abi.MANAGED:
        if abi.is_dying_capsule(capsule, name):  # nobody consumed it
            _DELETERS[name](abi.dying_capsule_pointer(capsule, name))
