from functools import cache

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from graph_models import identity, model
from onnxgen.errors import FeedError
from onnxgen.graph.session import InferenceSession, OrtValue

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def session(proto):
    return InferenceSession(proto)


@pytest.fixture(scope="module")
def relu():
    return session(model("g (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }"))


def refusal(run, feeds):
    with pytest.raises(FeedError) as error:
        run.run(None, feeds)
    return str(error.value)


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, ["missing input 'x'", "tensor(float)[N, 2]", "nothing"]),
        ({"y": X}, ["no input 'y'", "'x'"]),
        ({"x": X, "xx": X}, ["no input 'xx'", "did you mean 'x'"]),
        (
            {"x": X.astype(np.float64)},
            ["'x'", "tensor(float)[N, 2]", "tensor(double)[3, 2]", "numpy.float32"],
        ),
        ({"x": X.astype(ml_dtypes.bfloat16)}, ["tensor(bfloat16)"]),
        ({"x": X.astype("datetime64[s]")}, ["'x'", "datetime64"]),
        ({"x": X[0]}, ["'x'", "rank 2", "[2]", "rank 1"]),
        ({"x": X.reshape(2, 3)}, ["'x'", "dimension 1 is 3, not 2"]),
        ({"x": np.array([["a", "b"]])}, ["'x'", "tensor(string)[1, 2]"]),
        ({"x": None}, ["'x'", "found None", "optional"]),
        ({"x": {"a": 1}}, ["'x'", "dictionary"]),
        ({"x": [[1.0], [2.0, 3.0]]}, ["'x'"]),
        ({"x": [["a", "b"]]}, ["'x'"]),
        ({"x": object()}, ["'x'", "expected an array, found object"]),
        ({"x": 1.0}, ["'x'", "rank 2", "rank 0"]),
    ],
)
def test_a_wrong_feed_is_named_with_what_was_expected_and_found(relu, feeds, words):
    message = refusal(relu, feeds)
    for word in words:
        assert word in message


def test_feeds_that_are_no_dictionary_are_refused(relu):
    assert "dictionary" in refusal(relu, [X])


@pytest.mark.parametrize(
    "value",
    [
        X,
        X.tolist(),
        X.astype(np.int64).tolist(),
        tuple(map(tuple, X.tolist())),
        list(X),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1].copy()[::-1],
        X.astype(">f4"),
        np.broadcast_to(X, X.shape),
        OrtValue.ortvalue_from_numpy(X),
    ],
    ids=[
        "array",
        "lists",
        "ints",
        "tuples",
        "rows",
        "fortran",
        "strided",
        "negative",
        "big-endian",
        "read-only",
        "OrtValue",
    ],
)
def test_every_form_of_a_value_is_taken(relu, value):
    (y,) = relu.run(None, {"x": value})
    np.testing.assert_array_equal(y, X)
    assert y.dtype == np.float32


def test_objects_with_array_or_dlpack_are_taken(relu):
    class Array:
        def __array__(self, dtype=None, copy=None):
            return X

    class Tensor:
        def __dlpack__(self, **how):
            return X.__dlpack__(**how)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    for value in (Array(), Tensor()):
        np.testing.assert_array_equal(relu.run(None, {"x": value})[0], X)


def test_inputs_are_not_changed_and_outputs_are_new(relu):
    x = X.copy()
    (y,) = relu.run(None, {"x": x})
    y += 1
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("kind", "value", "word"),
    [
        ("int64", [1.5], "float64"),
        ("uint8", [300], "300"),
        ("bool", [1, 2], "int64"),
        ("int32", [None], "object"),
    ],
)
def test_lists_that_would_lose_something_are_refused(kind, value, word):
    assert word in refusal(session(identity(f"{kind}[N]")), {"x": value})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int64[N]", [1, 2], np.array([1, 2], np.int64)),
        ("uint8[N]", [1, 255], np.array([1, 255], np.uint8)),
        ("bool[N]", [True, False], np.array([True, False])),
        ("float16[N]", [0.5, 1], np.array([0.5, 1], np.float16)),
        ("bfloat16[N]", [0.5, 1], np.array([0.5, 1], ml_dtypes.bfloat16)),
        ("float[N]", [], np.array([], np.float32)),
        ("float", 1.5, np.array(1.5, np.float32)),
        ("float", 2, np.array(2, np.float32)),
        ("float", np.float32(1.5), np.array(1.5, np.float32)),
        ("float", np.ones(1, np.float32), np.array(1, np.float32)),
        ("string", "a", np.array("a", object)),
    ],
)
def test_lists_and_scalars_become_the_inputs_type(kind, value, expected):
    (y,) = session(identity(kind)).run(None, {"x": value})
    assert y.dtype == expected.dtype
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y, expected)


TYPES = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8, TensorProto.INT16,
    TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
    TensorProto.BOOL, TensorProto.COMPLEX64, TensorProto.COMPLEX128, TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT8E8M0,
    TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2, TensorProto.FLOAT4E2M1,
]  # fmt: skip


@pytest.mark.parametrize("element", TYPES, ids=TensorProto.DataType.Name)
def test_every_element_type_goes_in_and_out(element):
    x, y = (helper.make_tensor_value_info(name, element, ["N"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    run = session(proto)
    array = np.array([0, 1, 0]).astype(helper.tensor_dtype_to_np_dtype(element))
    (found,) = run.run(None, {"x": array})
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.element_type() == element
    assert run.get_inputs()[0].type == value.data_type() == run.get_outputs()[0].type


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "ä€", ""], object),
        np.array(["a", "ä€", ""]),
        np.array([b"a", "ä€".encode(), b""]),
        np.array([b"a", "ä€", ""], object),
        ["a", "ä€", ""],
    ],
    ids=["objects", "str", "bytes", "mixed", "list"],
)
def test_strings_come_in_every_form(value):
    (y,) = session(identity("string[N]")).run(None, {"x": value})
    assert y.dtype == object
    assert y.tolist() == ["a", "ä€", ""]


def test_objects_that_are_no_strings_are_refused():
    run = session(identity("string[N]"))
    assert "found a NoneType" in refusal(run, {"x": np.array(["a", None], object)})
    assert "not UTF-8" in refusal(run, {"x": np.array([b"\xff"])})
    assert "tensor(string)" in refusal(run, {"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize("names", [("N", "N"), ("?", "?"), ("", ""), (None, None)])
def test_symbols_force_nothing(names):
    x, z = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [d]) for n, d in zip("xz", names, strict=True)
    )
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yw"]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["z"], ["w"])]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x, z], outs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    y, w = session(proto).run(None, {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)})
    assert (y.shape, w.shape) == ((2,), (3,))


@pytest.mark.parametrize("shape", [(), (2,), (1, 2, 3), (0, 2)])
def test_an_unknown_rank_takes_every_rank(shape):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    run = session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert run.run(None, {"x": np.ones(shape, np.float32)})[0].shape == shape


def with_weight(ir_version, *, is_input=True):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["N"])] + [value("w", TensorProto.FLOAT, [2])] * is_input
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        inputs,
        [value("y", TensorProto.FLOAT, ["N"])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=ir_version)


ONES = np.ones(2, np.float32)


@pytest.mark.parametrize("ir_version", [4, 8])
def test_an_initializer_that_is_an_input_can_be_fed(ir_version):
    run = session(with_weight(ir_version))
    assert [value.name for value in run.get_inputs()] == ["x"]
    assert [value.name for value in run.get_overridable_initializers()] == ["w"]
    assert run.run(None, {"x": ONES})[0].tolist() == [2, 3]
    assert run.run(None, {"x": ONES, "w": np.zeros(2, np.float32)})[0].tolist() == [1, 1]
    assert run.run(None, {"x": ONES})[0].tolist() == [2, 3]
    assert "dimension 0 is 3, not 2" in refusal(run, {"x": ONES, "w": np.zeros(3, np.float32)})


@pytest.mark.parametrize("proto", [with_weight(3), with_weight(8, is_input=False)], ids=["IR 3", "no input"])
def test_other_initializers_cannot(proto):
    run = session(proto)
    assert [value.name for value in run.get_inputs()] == ["x"]
    assert run.get_overridable_initializers() == []
    assert run.run(None, {"x": ONES})[0].tolist() == [2, 3]
    assert "'w' is an initializer" in refusal(run, {"x": ONES, "w": ONES})


def test_sequences_are_lists_of_checked_values():
    run = session(identity("seq(float[N])", opset=17))
    assert [array.tolist() for array in run.run(None, {"x": [ONES, ONES[:1]]})[0]] == [[1, 1], [1]]
    assert [array.tolist() for array in run.run(None, {"x": ([1.0, 2.0],)})[0]] == [[1, 2]]
    assert run.run(None, {"x": []})[0] == []
    assert "item 1: expected tensor(float)" in refusal(run, {"x": [ONES, np.ones(2)]})
    assert "a list" in refusal(run, {"x": ONES})
    assert "found None" in refusal(run, {"x": None})


def test_optionals_may_be_none_or_left_out():
    proto = model("g (optional(float[N]) x) => (bool y) { y = OptionalHasElement(x) }")
    run = session(proto)
    assert run.get_inputs()[0].type == "optional(tensor(float))"
    assert run.get_inputs()[0].shape == ["N"]
    for feeds, expected in (({}, False), ({"x": None}, False), ({"x": ONES}, True)):
        (y,) = run.run(None, feeds)
        assert y.tolist() is expected
    assert "tensor(double)" in refusal(run, {"x": np.ones(2)})


def dict_vectorizer(key, value, *, vocabulary):
    kind = onnx.TypeProto()
    kind.map_type.key_type = key
    kind.map_type.value_type.tensor_type.elem_type = value
    x = onnx.ValueInfoProto(name="x", type=kind)
    y = helper.make_tensor_value_info("y", value, [1, len(vocabulary)])
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=vocabulary)
    return helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)],
        ir_version=8,
    )


def test_maps_are_dictionaries():
    run = session(dict_vectorizer(TensorProto.STRING, TensorProto.FLOAT, vocabulary=["a", "b"]))
    assert run.get_inputs()[0].type == "map(string,tensor(float))"
    assert run.run(None, {"x": {"b": 2.5}})[0].ravel().tolist() == [0, 2.5]
    assert run.run(None, {"x": {"b": np.float32(2.5), "a": 1}})[0].ravel().tolist() == [1, 2.5]
    assert "keys of string, found 1" in refusal(run, {"x": {1: 2.5}})
    assert "key 'a'" in refusal(run, {"x": {"a": "text"}})
    assert "a dictionary" in refusal(run, {"x": [1.0]})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
    | st.builds(object)
    | st.builds(
        lambda name, shape: np.zeros(shape).astype(name),
        st.sampled_from(["f4", ">f4", "i8", "O", "U3", "S3", "M8[s]", "V8", "?", "c8", "f4,i4", ml_dtypes.bfloat16]),
        st.lists(st.integers(0, 3), max_size=3),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["float[N, 2]", "int4[N]", "string", "bool[1]", "seq(float[N])", "optional(float[N])"]
)
@given(value=VALUES)
@settings(max_examples=60, deadline=None)
def test_any_value_fits_or_is_a_feed_error(kind, value):
    run = _session_for(kind)
    try:
        (port,) = run.get_inputs()
        run.run(None, {port.name: value})
    except FeedError as error:
        assert "'x'" in str(error)


@cache
def _session_for(kind):
    return session(identity(kind, opset=24))
