"""An array of a made-up library that lends its memory by DLPack, and counts what happens to it."""

from __future__ import annotations

import ctypes

from onnxgen.foundations import dlpack_abi as abi

_LENT = []
"""A borrower may outlive the object that it borrowed from; memory of tests is never given back."""


class ForeignArray:
    """Lends ``array`` as a producer of that kind would, written against the structures alone.

    ``version`` None is a producer from before DLPack 1.0. ``freed`` counts calls of the deleter.
    """

    def __init__(
        self, array, *, version=None, flags=0, code=None, lanes=1, shape=None, device=(1, 0), offset=0
    ):
        self.array, self.version, self.flags, self.lanes = array, version, flags, lanes
        self.code = code or abi.code_of(array.dtype)
        self.shape = array.shape if shape is None else shape
        self.plain = shape is not None
        self.device, self.offset = device, offset
        self.freed = 0
        self.capsule = None

        @abi.DELETER
        def deleter(address):
            self.freed += 1

        @abi.CAPSULE_DESTRUCTOR
        def destructor(capsule):
            pass

        self._deleter, self._destructor = deleter, destructor

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        if self.version is None and asked:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        struct = abi.DLManagedTensor if self.version is None else abi.DLManagedTensorVersioned
        self._managed = managed = struct()
        dims = ctypes.c_int64 * len(self.shape)
        self._shape = dims(*self.shape)
        tensor = managed.tensor
        tensor.data = self.array.ctypes.data - self.offset
        tensor.byte_offset = self.offset
        tensor.device.device_type, tensor.device.device_id = self.device
        tensor.ndim = len(self.shape)
        tensor.dtype.code, tensor.dtype.bits = self.code
        tensor.dtype.lanes = self.lanes
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if not self.plain:
            self._strides = dims(*(step // self.array.itemsize for step in self.array.strides))
            tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = self._deleter
        if self.version is not None:
            managed.major, managed.minor = self.version
            managed.flags = self.flags
        _LENT.append(self)
        name = abi.OLD_NAME if self.version is None else abi.NEW_NAME
        self.capsule = abi.new_capsule(ctypes.addressof(managed), name, self._destructor)
        return self.capsule
