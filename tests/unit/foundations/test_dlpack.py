import gc
import importlib.util
import sys

import ml_dtypes
import numpy as np
import pytest

from foreign_array import ForeignArray
from onnxgen.errors import CapabilityError
from onnxgen.foundations import dlpack_abi as abi
from onnxgen.foundations.dlpack import from_dlpack, to_dlpack
from onnxgen.foundations.packed_bits import pack

NUMPY = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bool",
]
ML = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
]
SMALL = ("float4_e2m1fn", "int4", "uint4", "int2", "uint2")


def of(name):
    return np.dtype(getattr(ml_dtypes, name) if name in ML else name)


class Lender:
    """An object of ours that lends an array."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return to_dlpack(self.array, **how)

    def __dlpack_device__(self):
        return (1, 0)


class OldLender(Lender):
    def __dlpack__(self, stream=None):
        return to_dlpack(self.array, stream=stream)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (name, version)
        for name in NUMPY + ML
        for version in (None, (1, 0), (1, 1), (1, 9))
        if version or abi.bits_of(of(name)) >= 8  # without flags such elements are packed: see below
    ],
)
def test_memory_of_another_library_is_shared(name, version):
    dtype = of(name)
    array = np.arange(24, dtype=np.uint8).astype(np.float32).astype(dtype).reshape(2, 3, 4)
    flags = abi.SUBBYTE_PADDED if version else 0
    found = from_dlpack(ForeignArray(array, version=version, flags=flags))
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()
    assert np.shares_memory(found.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("version", [None, (1, 1)])
def test_strides_of_any_sign_and_offsets_are_kept(version):
    base = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    for view in (base.T, base[::-1, :, ::-2], base[1:, ::2], base[:, :1], base[0, 0, :1].reshape(())):
        for offset in (0, 8):
            found = from_dlpack(ForeignArray(view, version=version, offset=offset))
            np.testing.assert_array_equal(found, view)
            assert found.strides == view.strides
            assert np.shares_memory(found, base)


def test_missing_strides_mean_c_order():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(from_dlpack(ForeignArray(array, shape=(3, 2))), array.reshape(3, 2))


def test_the_owner_gets_its_memory_back_once_when_the_last_view_is_gone():
    foreign = ForeignArray(np.arange(6, dtype=np.float32))
    found = from_dlpack(foreign)
    view = found[2:].reshape(2, 2)
    del found
    gc.collect()
    assert foreign.freed == 0
    del view
    gc.collect()
    assert foreign.freed == 1


def test_a_used_capsule_is_renamed_and_refused():
    for version, name in ((None, b"used_dltensor"), ((1, 0), b"used_dltensor_versioned")):
        foreign = ForeignArray(np.zeros(2, np.float32), version=version)
        found = from_dlpack(foreign)
        assert abi.is_capsule(foreign.capsule, name)
        with pytest.raises(TypeError, match="unused DLPack capsule"):
            from_dlpack(foreign.capsule)
        del found


def test_a_bare_capsule_will_do():
    array = np.arange(3, dtype=np.int16)
    np.testing.assert_array_equal(from_dlpack(array.__dlpack__()), array)


def test_empty_arrays_own_nothing():
    foreign = ForeignArray(np.empty((0, 3), np.float32))
    found = from_dlpack(foreign)
    assert found.shape == (0, 3)
    assert found.dtype == np.float32
    assert foreign.freed == 1


def test_read_only_memory_stays_read_only():
    array = np.arange(3, dtype=np.float32)
    assert not from_dlpack(ForeignArray(array, version=(1, 0), flags=abi.READ_ONLY)).flags.writeable
    assert from_dlpack(ForeignArray(array, version=(1, 0))).flags.writeable


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("version", [None, (1, 1)])
def test_packed_elements_are_unpacked(name, version):
    dtype = of(name)
    width = abi.bits_of(dtype)
    codes = np.random.default_rng().integers(0, 2**width, (3, 5)).astype(np.uint8)
    packed = pack(codes, width)
    foreign = ForeignArray(packed, version=version, code=abi.code_of(dtype), shape=(3, 5))
    found = from_dlpack(foreign)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.view(np.uint8) & (2**width - 1), codes)
    gc.collect()
    assert foreign.freed == 1


def test_lanes_of_small_elements_become_a_dimension():
    packed = np.array([0x21, 0x43], np.uint8)
    foreign = ForeignArray(packed, version=(1, 1), code=(0, 4), lanes=2, shape=(2,))
    np.testing.assert_array_equal(from_dlpack(foreign).astype(np.int8), [[1, 2], [3, 4]])


def test_devices_and_unknown_elements_are_named():
    array = np.zeros(2, np.float32)
    with pytest.raises(CapabilityError, match="CUDA"):
        from_dlpack(ForeignArray(array, device=(2, 0)))
    with pytest.raises(CapabilityError, match="DLPack type 99"):
        from_dlpack(ForeignArray(array, device=(99, 0)))
    with pytest.raises(CapabilityError, match="code 3, 64 bits"):
        from_dlpack(ForeignArray(array, code=(3, 64)))
    with pytest.raises(CapabilityError, match="4 lanes"):
        from_dlpack(ForeignArray(array, lanes=4))


def test_a_newer_major_version_is_left_to_its_owner():
    foreign = ForeignArray(np.zeros(2, np.float32), version=(2, 0))
    with pytest.raises(CapabilityError, match=r"DLPack 2\.0"):
        from_dlpack(foreign)
    assert foreign.freed == 0
    assert abi.is_capsule(foreign.capsule, abi.NEW_NAME)


def test_owners_that_refuse_say_why():
    class Refuses:
        def __dlpack__(self, **_):
            raise BufferError("it needs a gradient")

    with pytest.raises(CapabilityError, match="needs a gradient"):
        from_dlpack(Refuses())
    with pytest.raises(TypeError, match="found int"):
        from_dlpack(3)


@pytest.mark.parametrize("name", NUMPY + ML)
@pytest.mark.parametrize("lender", [Lender, OldLender])
def test_what_is_lent_comes_back_the_same(name, lender):
    dtype = of(name)
    if lender is OldLender and name.startswith("float6_"):
        with pytest.raises(CapabilityError, match="packed"):
            from_dlpack(OldLender(np.zeros(3, dtype)))
        return
    array = np.arange(24, dtype=np.uint8).astype(np.float32).astype(dtype).reshape(4, 6)[1:, ::2]
    found = from_dlpack(lender(array))
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()
    copied = lender is OldLender and abi.bits_of(dtype) < 8
    assert np.shares_memory(found, array) is not copied


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_reads_what_is_lent(name):
    array = np.arange(12).astype(name).reshape(3, 4).T
    found = np.from_dlpack(Lender(array))
    np.testing.assert_array_equal(found, array)
    assert np.shares_memory(found, array)


def test_the_lender_may_go_before_the_borrower():
    array = np.arange(5, dtype=np.float32)
    before = sys.getrefcount(array)
    found = np.from_dlpack(Lender(array))
    assert sys.getrefcount(array) == before + 1
    view = found[1:]
    del found
    assert sys.getrefcount(array) == before + 1
    del view
    gc.collect()
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("max_version", [None, (1, 0), (1, 1)])
def test_a_capsule_that_nobody_takes_gives_the_array_back(max_version):
    array = np.arange(5, dtype=np.float32)
    before = sys.getrefcount(array)
    capsule = to_dlpack(array, max_version=max_version)
    assert sys.getrefcount(array) == before + 1
    del capsule
    assert sys.getrefcount(array) == before


def test_read_only_arrays_are_lent_as_such_or_not_at_all():
    array = np.broadcast_to(np.float32(1), (3, 2))
    assert not np.from_dlpack(Lender(array)).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        to_dlpack(array)
    copied = from_dlpack(to_dlpack(array, copy=True))
    assert copied.flags.writeable
    np.testing.assert_array_equal(copied, array)


@pytest.mark.parametrize(
    ("array", "how", "message"),
    [
        (np.zeros(2), {"stream": 1}, "stream"),
        (np.zeros(2), {"dl_device": (2, 0)}, "device"),
        (np.array(["a"]), {}, "no element type"),
        (np.zeros(2, ">f4"), {}, "no element type"),
        (np.zeros(2, ml_dtypes.int4), {"copy": False}, "packed"),
        (np.zeros(4, "f4,i1")["f0"], {}, "strides"),
    ],
)
def test_what_cannot_be_lent_says_why(array, how, message):
    with pytest.raises(BufferError, match=message):
        to_dlpack(array, **how)


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@needs_torch
@pytest.mark.parametrize(
    "name", ["float32", "float16", "bfloat16", "int64", "bool", "float8_e4m3fn", "float8_e5m2"]
)
def test_pytorch_tensors_come_and_go(name):
    import torch

    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, name)).T
    try:
        found = from_dlpack(tensor)
    except CapabilityError:
        if name.startswith("float8"):
            pytest.skip("this PyTorch does not lend float8")
        raise
    assert found.dtype.name == name
    assert found.shape == (4, 3)
    np.testing.assert_array_equal(found.astype(np.float32), tensor.to(torch.float32).numpy())
    assert found.ctypes.data == tensor.data_ptr()
    back = torch.from_dlpack(Lender(found))
    assert back.dtype == tensor.dtype
    assert back.data_ptr() == tensor.data_ptr()


@needs_torch
def test_pytorch_tensors_with_gradients_say_so():
    import torch

    with pytest.raises(CapabilityError, match="gradient"):
        from_dlpack(torch.zeros(2, requires_grad=True))


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float8_e4m3fn", "int4", "uint4", "int2", "float4_e2m1fn", "bool"]
)
def test_onnx_runtime_reads_and_lends(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    array = np.arange(6).astype(np.float32).astype(of(name)).reshape(2, 3)
    theirs = onnxruntime.OrtValue.from_dlpack(Lender(array))
    assert list(theirs.shape()) == [2, 3]
    back = from_dlpack(theirs)
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
