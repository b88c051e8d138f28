import ml_dtypes
import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto

from onnxgen import InferenceSession
from onnxgen.errors import UnsupportedOperatorError

RANDOM = np.random.default_rng()


def model(op_type, inputs, num_outputs=1, *, initializers=(), domain="", opset=18, **attributes):
    """A one-node model; inputs by name, as element types."""
    names = [*inputs, *(tensor.name for tensor in initializers)]
    node = onnx.helper.make_node(
        op_type, names, [f"y{i}" for i in range(num_outputs)], domain=domain, **attributes
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [onnx.helper.make_empty_tensor_value_info(f"y{i}") for i in range(num_outputs)],
        initializers,
    )
    imports = [onnx.helper.make_opsetid("", opset)]
    if domain:
        imports.append(onnx.helper.make_opsetid(domain, 1))
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def test_onnx_runtime_alone_runs_a_model():
    x = RANDOM.standard_normal((3, 5), np.float32)
    session = InferenceSession(model("Softmax", {"x": TensorProto.FLOAT}, axis=0), providers=["ort"])
    for shape in ((3, 5), (2, 7, 1)):
        x = RANDOM.standard_normal(shape, np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y.sum(0), np.ones(shape[1:]), rtol=1e-6)


def test_it_is_asked_after_the_others_and_only_where_it_is_named():
    contrib = model("MurmurHash3", {"x": TensorProto.INT32}, domain="com.microsoft", seed=1)
    with_it = InferenceSession(contrib, providers=["reference", "ort"])
    (assignment,) = [found for _, found in with_it.executable.placement]
    assert assignment.provider_name == "ort"
    assert assignment.declined[0][0] == "reference"
    (y,) = with_it.run(None, {"x": np.int32([3])})
    assert y.dtype == np.uint32
    with pytest.raises(UnsupportedOperatorError, match="MurmurHash3"):
        InferenceSession(contrib, providers=["reference"])


def test_constants_and_several_outputs():
    k = onnx.helper.make_tensor("k", TensorProto.INT64, [1], [2])
    session = InferenceSession(
        model("TopK", {"x": TensorProto.FLOAT}, 2, initializers=[k]), providers=["ort"]
    )
    values, indices = session.run(None, {"x": np.float32([[1, 5, 3], [9, 7, 8]])})
    assert values.tolist() == [[5, 3], [9, 8]]
    assert indices.tolist() == [[1, 2], [0, 2]]


def test_a_decline_says_why():
    bfloat16 = model("Abs", {"x": TensorProto.BFLOAT16})
    with pytest.raises(UnsupportedOperatorError, match="bfloat16"):
        InferenceSession(bfloat16, providers=["ort"])
    assert InferenceSession(bfloat16, providers=["ort", "cpu"]).run(
        None, {"x": np.ones(2, ml_dtypes.bfloat16)}
    )
    with pytest.raises(UnsupportedOperatorError, match="ONNX Runtime refuses it"):
        InferenceSession(model("Sinh", {"x": TensorProto.DOUBLE}), providers=["ort"])
    with pytest.raises(UnsupportedOperatorError, match="has no kernel for it"):
        InferenceSession(model("NoSuch", {"x": TensorProto.FLOAT}, domain="com.nobody"), providers=["ort"])


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_booleans_are_not_reduced_because_there_may_be_none(op_type):
    with pytest.raises(UnsupportedOperatorError, match="fails on booleans"):
        InferenceSession(model(op_type, {"x": TensorProto.BOOL}, opset=20), providers=["ort"])
