"""Optimized models as files."""

import numpy as np
import onnx
import onnxruntime
import pytest

from graph_models import model
from onnxgen.errors import CapabilityError
from onnxgen.graph.session import GraphOptimizationLevel, InferenceSession, SessionOptions, spent_model

NORM = """g (float[N, 8] x) => (float[N, 8] y) <float two = {2}, float eps = {1e-5}> {
    axes = Constant <value_ints = [-1]> ()
    mean = ReduceMean <axes = [-1]> (x)
    apart = Sub (x, mean)
    squares = Pow (apart, two)
    variance = ReduceMean <axes = [-1]> (squares)
    sum = Add (variance, eps)
    deviation = Sqrt (sum)
    norm = Div (apart, deviation)
    scaled = Mul (norm, w)
    turned = Transpose <perm = [1, 0]> (scaled)
    y = Transpose <perm = [1, 0]> (turned)
}"""


def norm_model() -> onnx.ModelProto:
    proto = model(NORM, opset=13, ir=8)
    weight = np.random.default_rng().standard_normal(8).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return proto


def by_onnx_runtime(path, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("level", list(GraphOptimizationLevel))
def test_onnx_runtime_and_we_run_what_was_written(tmp_path, level):
    path = tmp_path / "written.onnx"
    options = SessionOptions(optimized_model_filepath=path, graph_optimization_level=level)
    session = InferenceSession(norm_model(), options)
    feeds = {"x": np.random.default_rng().standard_normal((3, 8)).astype(np.float32)}
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(by_onnx_runtime(path, feeds)[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(InferenceSession(path).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("limit", [2**30, 100])
def test_weights_in_files_are_written_anew(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(spent_model, "_MOST_EMBEDDED_BYTES", limit)
    weight = np.random.default_rng().standard_normal((8, 64)).astype(np.float32)
    proto = model("g (float[N, 8] x) => (float[N, 64] y) { y = MatMul (x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    session = InferenceSession(path, SessionOptions(optimized_model_filepath=path))  # over itself
    feeds = {"x": np.ones((2, 8), np.float32)}
    expected = np.ones((2, 8), np.float32) @ weight
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(by_onnx_runtime(path, feeds)[0], expected, rtol=1e-5, atol=1e-5)
    (tensor,) = onnx.load(path, load_external_data=False).graph.initializer
    assert (tensor.data_location == onnx.TensorProto.EXTERNAL) == (limit == 100)


def test_nodes_of_another_opset_cannot_be_written(tmp_path):
    function = onnx.helper.make_function(
        "old", "Total", ["a"], ["b"],
        [onnx.helper.make_node("ReduceSum", ["a"], ["b"], axes=[0], keepdims=0)], [onnx.helper.make_opsetid("", 11)],
    )  # fmt: skip
    proto = model("g (float[N] x) => (float y) { y = old.Total (x) }", domains=', "old" : 1')
    proto.functions.append(function)
    path = tmp_path / "written.onnx"
    with pytest.raises(CapabilityError, match=r"1 of its nodes .* ReduceSum .* opset 11"):
        InferenceSession(proto, SessionOptions(optimized_model_filepath=path))
    assert InferenceSession(proto).run(None, {"x": np.ones(3, np.float32)})[0] == 3
    assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path):
    proto = model("g (float[N] x) => (float[N] y) { y = Neg (x) }")
    with pytest.raises(FileNotFoundError):
        InferenceSession(proto, SessionOptions(optimized_model_filepath=tmp_path / "none" / "written.onnx"))
