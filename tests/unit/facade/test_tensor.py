import numpy as np
import pytest

from onnxgen.errors import OptionError
from onnxgen.facade.tensor import NamedTensors, Tensor


def test_a_tensor_tells_its_shape_type_and_content():
    tensor = Tensor(np.arange(6, dtype=np.int64).reshape(2, 3).T)
    assert tensor.shape() == [3, 2]
    assert tensor.type() == np.int64
    assert tensor.data().tolist() == [[0, 3], [1, 4], [2, 5]]
    np.testing.assert_array_equal(tensor.as_numpy(), np.asarray(tensor))


def test_a_contiguous_array_is_not_copied():
    array = np.zeros(3, np.float16)
    assert np.shares_memory(Tensor(array).as_numpy(), array)


def test_text_is_no_tensor():
    with pytest.raises(OptionError, match="numbers or booleans"):
        Tensor(["a"])


def test_named_tensors_are_a_mapping():
    tensors = NamedTensors()
    tensors["a"] = np.zeros(3, np.float32)
    tensors["b"] = Tensor([1, 2])
    assert list(tensors.keys()) == ["a", "b"]
    assert len(tensors) == 2
    assert tensors["a"].shape() == [3]
    del tensors["a"]
    assert "a" not in tensors


def test_named_tensors_may_be_deleted_while_their_names_are_walked():
    tensors = NamedTensors()
    tensors["a"], tensors["b"] = [1], [2]
    for name in tensors.keys():  # noqa: SIM118 - published programs write it so
        del tensors[name]
    assert len(tensors) == 0
