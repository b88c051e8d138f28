"""Models whose inputs or outputs are dictionaries, or lists of them, as ONNX Runtime loads and runs them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnxgen.graph.session import GraphOptimizationLevel, InferenceSession, SessionOptions

ML = "ai.onnx.ml"
LEVELS = [GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL]


def map_info(name, key, value):
    info = helper.make_value_info(name, onnx.TypeProto())
    info.type.map_type.key_type = key
    info.type.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(value, None))
    return info


def model(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    imports = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def session(data, level):
    options = SessionOptions()
    options.graph_optimization_level = level
    return InferenceSession(data, options, providers=["cpu"])


def facts(session):
    return [(arg.name, arg.type) for arg in (*session.get_inputs(), *session.get_outputs())]


def untyped(name):
    return onnx.ValueInfoProto(name=name)


WORDS = helper.make_node("DictVectorizer", ["m"], ["y"], domain=ML, string_vocabulary=["a", "c", "b"])
NUMBERS = helper.make_node("DictVectorizer", ["m"], ["y"], domain=ML, int64_vocabulary=[5, 1])
DENSE = helper.make_node("CastMap", ["m"], ["y"], domain=ML, cast_to="TO_INT64")
SPARSE = helper.make_node(
    "CastMap", ["m"], ["y"], domain=ML, cast_to="TO_STRING", map_form="SPARSE", max_map=4
)
ZIP = helper.make_node("ZipMap", ["x"], ["z"], domain=ML, classlabels_int64s=[3, 1])
SCORES = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("node", "key", "value", "feed"),
    [
        (WORDS, TensorProto.STRING, TensorProto.FLOAT, {"a": 1.5, "b": 0.1, "z": 3.0}),
        (NUMBERS, TensorProto.INT64, TensorProto.FLOAT, {1: 2.5, 7: 3.0}),
        (DENSE, TensorProto.INT64, TensorProto.FLOAT, {7: -2.5, 2: 3.0}),
        (SPARSE, TensorProto.INT64, TensorProto.FLOAT, {3: 1.5, 0: 0.1}),
    ],
    ids=lambda case: case.op_type if isinstance(case, onnx.NodeProto) else None,
)
def test_a_dictionary_is_an_input(node, key, value, feed, level):
    data = model([node], [map_info("m", key, value)], [untyped("y")])
    ours, oracle = session(data, level), onnxruntime.InferenceSession(data)
    assert facts(ours) == facts(oracle)
    (got,), (want,) = ours.run(None, {"m": feed}), oracle.run(None, {"m": feed})
    assert got.tolist() == want.tolist()
    assert got.dtype == want.dtype


@pytest.mark.parametrize(
    ("node", "key", "value", "feed", "want"),
    [
        (WORDS, TensorProto.STRING, TensorProto.INT64, {"c": 2**60 + 1}, np.array([[0, 2**60 + 1, 0]])),
        (NUMBERS, TensorProto.INT64, TensorProto.STRING, {5: "x"}, np.array([["x", ""]], object)),
        (NUMBERS, TensorProto.INT64, TensorProto.DOUBLE, {1: 0.1}, np.array([[0, 0.1]])),
        (DENSE, TensorProto.INT64, TensorProto.STRING, {9: "-1.5", 3: "7"}, np.array([[7, -1]])),
        (WORDS, TensorProto.STRING, TensorProto.FLOAT, {}, np.zeros((1, 3), np.float32)),
    ],
)
def test_dictionaries_that_onnx_runtime_takes_from_no_python_caller(node, key, value, feed, want):
    data = model([node], [map_info("m", key, value)], [untyped("y")])
    ours = session(data, LEVELS[1])
    assert facts(ours) == facts(onnxruntime.InferenceSession(data))
    (got,) = ours.run(None, {"m": feed})
    assert (got.tolist(), got.dtype, got.shape) == (want.tolist(), want.dtype, want.shape)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("declared", [False, True])
def test_a_list_of_dictionaries_is_an_output(declared, level):
    output = untyped("z")
    if declared:
        element = map_info("z", TensorProto.INT64, TensorProto.FLOAT).type
        output = helper.make_value_info("z", helper.make_sequence_type_proto(element))
    data = model([ZIP], [SCORES], [output])
    ours, oracle = session(data, level), onnxruntime.InferenceSession(data)
    assert facts(ours) == facts(oracle) == [("x", "tensor(float)"), ("z", "seq(map(int64,tensor(float)))")]
    x = np.array([[0.25, 0.75], [1, 0]], np.float32)
    (got,), (want,) = ours.run(None, {"x": x}), oracle.run(None, {"x": x})
    assert [list(row.items()) for row in got] == [list(row.items()) for row in want]


@pytest.mark.parametrize("level", LEVELS)
def test_branches_see_and_give_dictionaries(level):
    branches = {
        name: helper.make_graph(
            [
                helper.make_node("DictVectorizer", ["m"], ["x"], domain=ML, string_vocabulary=words),
                helper.make_node("ZipMap", ["x"], ["z"], domain=ML, classlabels_strings=words),
            ],
            name,
            [],
            [untyped("z")],
        )
        for name, words in (("then_branch", ["a", "b"]), ("else_branch", ["c", "a"]))
    }
    data = model(
        [helper.make_node("If", ["c"], ["r"], **branches)],
        [
            map_info("m", TensorProto.STRING, TensorProto.FLOAT),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [untyped("r")],
    )
    ours = session(data, level)
    assert ours.get_outputs()[0].type == "seq(map(string,tensor(float)))"
    feeds = {"m": {"a": 1.0, "c": 3.0}}
    assert ours.run(None, feeds | {"c": np.array(True)}) == [[{"a": 1.0, "b": 0.0}]]
    assert ours.run(None, feeds | {"c": np.array(False)}) == [[{"a": 1.0, "c": 3.0}]]
