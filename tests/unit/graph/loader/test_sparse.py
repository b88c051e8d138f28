import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_models import model, node
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.loader import load_graph


def sparse(values, indices, dims, kind=np.float32):
    made = helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.array(values, kind), "w"),
        onnx.numpy_helper.from_array(np.array(indices, np.int64), "i"),
        dims,
    )
    return made


def loaded(tensor):
    made = model([node("Identity", "x", "y")])
    made.graph.sparse_initializer.append(tensor)
    return tensor_array(load_graph(made).model.graph.initializers["w"].const_value)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_positions_and_coordinates(indices):
    assert loaded(sparse([7, 8], indices, [2, 3])).tolist() == [[0, 7, 0], [0, 0, 8]]


def test_no_values_and_strings():
    assert loaded(sparse([], np.zeros((0,)), [2])).tolist() == [0, 0]
    assert loaded(sparse([b"a"], [1], [2], object)).tolist() == ["", "a"]
    assert loaded(sparse([b"\xff"], [1], [2], object)).tolist() == ["", "\udcff"]  # not UTF-8


@pytest.mark.parametrize(
    ("tensor", "finding"),
    [
        (sparse([1, 2], [0, 4], [2, 2]), "indices outside of its dimensions [2, 2]"),
        (sparse([1], [-1], [2]), "indices outside"),
        (sparse([1], [[0, 2]], [2, 2]), "outside of its dimensions"),
        (sparse([1, 2], [0], [2]), "2 values and indices of shape [1]"),
        (sparse([1], [0], [2**40]), "would take more than 2 GiB"),
        (sparse([1], [0], [-2]), "cannot be negative"),
        (sparse([[1]], [0], [2]), "values of rank 2"),
    ],
)
def test_what_does_not_fit_is_told_by_name(tensor, finding):
    with pytest.raises(InvalidGraphError) as caught:
        loaded(tensor)
    assert "sparse tensor 'w' " in str(caught.value) and finding in str(caught.value)


def test_constants_may_be_sparse():
    constant = node("Constant", "", "y")
    constant.attribute.add(
        name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR
    ).sparse_tensor.CopyFrom(sparse([3], [1], [2]))
    made = load_graph(model([constant])).model
    assert tensor_array(made.graph.initializers["y"].const_value).tolist() == [0, 3]
    assert made.graph.outputs[0].const_value.dtype is ir.DataType.FLOAT
