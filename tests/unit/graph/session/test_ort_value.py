import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from graph_models import model
from onnxgen.errors import CapabilityError, FeedError, StateError
from onnxgen.graph.session import InferenceSession, OrtValue

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_a_value_shares_the_memory_of_its_array():
    x = X.copy()
    value = OrtValue.ortvalue_from_numpy(x)
    x[0, 0] = 7
    assert value.numpy()[0, 0] == 7
    assert value.data_ptr() == x.ctypes.data
    value.update_inplace(np.ones((3, 2), np.float32))
    assert x.tolist() == [[1, 1]] * 3
    value.update_inplace(OrtValue.ortvalue_from_numpy(X))
    np.testing.assert_array_equal(x, X)


def test_facts_are_those_of_onnx_runtime():
    mine, other = OrtValue.ortvalue_from_numpy(X), onnxruntime.OrtValue.ortvalue_from_numpy(X)
    for name in (
        "data_type", "element_type", "shape", "is_tensor", "is_sparse_tensor", "is_tensor_sequence", "has_value",
        "device_name", "tensor_size_in_bytes", "__dlpack_device__", "data_ptr",
    ):  # fmt: skip
        assert getattr(mine, name)() == getattr(other, name)()


@pytest.mark.parametrize(
    "element", [TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.INT64]
)
def test_memory_by_shape_and_type(element):
    mine = OrtValue.ortvalue_from_shape_and_type([3, 3], element)
    other = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 3], element)
    for name in ("data_type", "element_type", "shape", "tensor_size_in_bytes"):
        assert getattr(mine, name)() == getattr(other, name)()


def test_types_may_be_numpys():
    assert OrtValue.ortvalue_from_shape_and_type([2], np.float64).data_type() == "tensor(double)"
    assert OrtValue.ortvalue_from_shape_and_type([2], ml_dtypes.bfloat16).data_type() == "tensor(bfloat16)"
    assert OrtValue.ortvalue_from_shape_and_type([2], str).numpy().tolist() == ["", ""]
    with pytest.raises(FeedError, match="999"):
        OrtValue.ortvalue_from_shape_and_type([2], 999)
    with pytest.raises(FeedError, match="datetime64"):
        OrtValue.ortvalue_from_shape_and_type([2], "datetime64[s]")


def test_elements_can_be_read_as_another_type_of_their_size():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert value.element_type() == TensorProto.BFLOAT16
    assert value.numpy().astype(np.float32).tolist() == [1, 2]
    bits[0] = 0
    assert float(value.numpy()[0]) == 0
    with pytest.raises(FeedError, match=r"1 bytes.*bfloat16, which has 2"):
        OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(4, np.uint8), TensorProto.BFLOAT16)


def test_strings_are_values_without_an_address():
    value = OrtValue.ortvalue_from_numpy(np.array(["a", "bc"]))
    assert value.data_type() == "tensor(string)"
    assert value.numpy().tolist() == ["a", "bc"]
    for ask in (value.data_ptr, value.tensor_size_in_bytes):
        with pytest.raises(StateError):
            ask()


def test_other_kinds_of_values_say_what_they_are():
    text = """g (float[N] x) => (seq(float[N]) y, optional(float[N]) z) {
        y = SequenceConstruct(x, x)
        z = Optional <type: type_proto = float[N]> ()
    }"""
    y, z = InferenceSession(model(text)).run_with_ort_values(None, {"x": OrtValue.ortvalue_from_numpy(X[0])})
    assert (y.data_type(), y.is_tensor(), y.is_tensor_sequence(), y.has_value()) == (
        "seq(tensor(float))",
        False,
        True,
        True,
    )
    assert (z.data_type(), z.is_tensor(), z.is_tensor_sequence(), z.has_value()) == (
        "tensor(float)",
        True,
        False,
        False,
    )
    assert y.element_type() == z.element_type() == TensorProto.FLOAT
    with pytest.raises(StateError, match=r"numpy\(\) is for tensors, this value is seq"):
        y.numpy()
    with pytest.raises(StateError, match="an empty optional"):
        z.shape()
    assert "seq(tensor(float))" in repr(y)


def test_arrays_of_numpy_can_be_made_of_it():
    value = OrtValue.ortvalue_from_numpy(X)
    assert np.shares_memory(np.asarray(value), X)
    assert not np.shares_memory(np.array(value, copy=True), X)
    assert np.asarray(value, dtype=np.float64).dtype == np.float64


def test_dlpack_goes_both_ways():
    value = OrtValue.from_dlpack(X)
    assert value.data_ptr() == X.ctypes.data
    np.testing.assert_array_equal(np.from_dlpack(value), X)
    half = OrtValue.ortvalue_from_numpy(X.astype(ml_dtypes.bfloat16))
    again = OrtValue.from_dlpack(half)
    assert again.data_type() == "tensor(bfloat16)"
    assert again.data_ptr() == half.data_ptr()


def test_updates_must_fit():
    value = OrtValue.ortvalue_from_numpy(X.copy())
    for wrong in (X[:2], X.astype(np.float64)):
        with pytest.raises(FeedError, match="shape and type must be the same"):
            value.update_inplace(wrong)
    with pytest.raises(StateError, match="read-only"):
        OrtValue.ortvalue_from_numpy(np.broadcast_to(X, X.shape)).update_inplace(X)


def test_devices_are_refused():
    with pytest.raises(CapabilityError, match="cuda:0"):
        OrtValue.ortvalue_from_numpy(X, "cuda")
    with pytest.raises(CapabilityError, match="cpu:1"):
        OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cpu", 1)
    with pytest.raises(FeedError, match="expected an array, found list"):
        OrtValue.ortvalue_from_numpy([1, 2])
