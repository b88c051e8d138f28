import inspect
import threading

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto

from foreign_array import ForeignArray
from onnxgen import eager
from onnxgen.errors import ConfigError, FeedError, KernelError, OptionError, UnsupportedOperatorError

X = np.array([[1, -2, 0.5], [3, 0, -1]], np.float32)


def test_operators_are_functions_on_arrays():
    np.testing.assert_array_equal(eager.Add(X, X), X + X)
    np.testing.assert_allclose(eager.Softmax(X, axis=0).sum(0), 1, rtol=1e-6)
    values, indices = eager.TopK(X, [2], largest=0)
    assert indices.tolist() == [[1, 2], [2, 1]]
    assert values.tolist() == [[-2, 0.5], [-1, 0]]


def test_versions_keep_their_own_meaning():
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    old, new = eager.opset(12).Softmax(x, axis=1), eager.opset(13).Softmax(x, axis=1)
    np.testing.assert_allclose(old.reshape(2, -1).sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(new.sum(1), 1, rtol=1e-6)
    assert eager.opset(12).Squeeze(x[:, :1], axes=[1]).shape == (2, 2)
    assert eager.opset(13).Squeeze(x[:, :1], [1]).shape == (2, 2)
    with pytest.raises(OptionError, match=r"opsets 1 to \d+ .* found 1000"):
        eager.opset(1000)
    with pytest.raises(OptionError, match="found 0"):
        eager.opset(0)


def test_other_domains():
    y = eager.ml.Scaler(X, offset=[1.0, 0.0, 0.0], scale=[2.0, 1.0, 1.0])
    np.testing.assert_allclose(y, (X - [1, 0, 0]) * [2, 1, 1], rtol=1e-6)
    assert eager.domain("ai.onnx.ml", 1).Scaler is not eager.ml.Scaler
    x = np.random.default_rng().standard_normal((2, 8)).astype(np.float32)
    expected = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(eager.domain("com.microsoft").FastGelu(x), expected, atol=1e-5)


WRONG_CALLS = [
    (lambda: eager.Softmaxx(X), AttributeError, "no operator 'Softmaxx'; did you mean 'Softmax'"),
    (lambda: eager.softmax(X), AttributeError, "'softmax'; did you mean 'Softmax'"),
    (
        lambda: eager.Add(X, X.astype(float)),
        FeedError,
        r"input 1 is tensor\(double\), but .* T is tensor\(float\)",
    ),
    (lambda: eager.MatMulInteger(X, X), FeedError, r"input 0 is tensor\(float\), but A takes tensor\(int8\)"),
    (lambda: eager.Upsample(X), AttributeError, r"withdrawn in opset 10; it is in opset\(9\)"),
    (lambda: eager.opset(1).GridSample(X), AttributeError, "opset 1 has no operator"),
    (lambda: eager.Softmax(X, axes=1), OptionError, "no attribute 'axes'; did you mean 'axis'"),
    (lambda: eager.Softmax(X, axis="a"), OptionError, "'axis' is an integer, found 'a'"),
    (lambda: eager.Softmax(X, axis=1.5), OptionError, "an integer, found 1.5"),
    (lambda: eager.Transpose(X, perm=1), OptionError, "a list of integers"),
    (lambda: eager.Transpose(X, perm="10"), OptionError, "a list of integers"),
    (lambda: eager.LeakyRelu(X, alpha="a"), OptionError, "a number"),
    (lambda: eager.Einsum(X, equation=3), OptionError, "a text"),
    (lambda: eager.Concat(X, X), OptionError, "needs the attribute 'axis'"),
    (lambda: eager.Softmax(), FeedError, r"takes 1 inputs \(input\), found 0"),
    (lambda: eager.Add(X, X, X), FeedError, "takes 2 inputs"),
    (lambda: eager.Add(X, None), FeedError, "'B' is not optional"),
    (lambda: eager.Add(X, B=X, A=X), FeedError, "'A' is given twice"),
    (lambda: eager.Add(X, object()), FeedError, "Add: input 'B': expected an array, found object"),
    (lambda: eager.Add(np.ones(2, np.int64), 1.5), FeedError, "int64"),
    (lambda: eager.Add(X, np.ones((7, 7), np.float32)), KernelError, r"Add failed.*float32\[2, 3\]"),
    (lambda: eager.Split(X), OptionError, "say how many with outputs="),
    (lambda: eager.Softmax(X, outputs=2), OptionError, "1 to 1 outputs, outputs=2"),
    (lambda: eager.Softmax(X, outputs=True), OptionError, "outputs=True"),
    (
        lambda: eager.domain("com.example").Frobnicate(X),
        UnsupportedOperatorError,
        "cpu declined: .*reference",
    ),
    (lambda: eager.domain("com.microsoft").frobnicate, AttributeError, "frobnicate"),
    (lambda: eager.domain("com.example").Frobnicate(X, a=object()), OptionError, "is no attribute"),
    (lambda: eager.If(np.array(True), then_branch=3, else_branch=3), OptionError, "a graph"),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_wrong_calls_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_scalars_and_lists_take_the_type_of_the_others():
    assert eager.Add(X, 1).dtype == np.float32
    assert eager.Add(1, X.astype(np.float64)).dtype == np.float64
    assert eager.Add(np.ones(2, ml_dtypes.bfloat16), 1).dtype == ml_dtypes.bfloat16
    assert eager.Clip(X, 0, 1).max() == 1
    assert eager.Clip(X, max=0).max() == 0
    assert eager.Add([1, 2], 3).dtype == np.int64
    assert eager.Exp([1, 2]).dtype == np.float32
    assert eager.Reshape(X, [3, 2]).shape == (3, 2)
    assert eager.Range(0, 6, 2).tolist() == [0, 2, 4]
    assert eager.Where([True, False], [1, 2], 0).tolist() == [1, 0]
    assert eager.Gather(X, 0).shape == (3,)
    assert eager.Equal(["a", "b"], "a").tolist() == [True, False]


def test_arrays_of_every_library_go_in():
    class Array:
        def __array__(self, dtype=None, copy=None):
            return X

    for value in (Array(), ForeignArray(X), ForeignArray(X, version=(1, 0)), X.astype(">f4"), X.T.copy().T):
        np.testing.assert_array_equal(eager.Neg(value), -X)
    assert eager.Neg(np.float32(2)).tolist() == -2
    foreign = ForeignArray(X.astype(ml_dtypes.bfloat16))
    assert eager.Cast(foreign, to=TensorProto.FLOAT).tolist() == X.tolist()


def test_types_can_be_attributes():
    assert eager.Cast(X, to=np.int8).dtype == np.int8
    assert eager.Cast(X, to=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    assert eager.Cast(X, to=np.dtype("float64")).dtype == np.float64


def test_tensors_can_be_attributes():
    for value in (
        np.array([7], np.int64),
        [7],
        onnx.helper.make_tensor("v", TensorProto.INT64, [1], [7]),
        ir.tensor(np.array([7], np.int64)),
    ):
        assert eager.ConstantOfShape([2], value=value).tolist() == [7, 7]
    assert eager.ConstantOfShape([2], value=np.array([8], np.int64)).tolist() == [8, 8]


def test_a_tensor_attribute_that_changes_later_changes_nothing():
    value = np.array([7], np.int64)
    assert eager.ConstantOfShape([1], value=value).tolist() == [7]
    value[0] = 8
    assert eager.ConstantOfShape([1], value=value).tolist() == [8]
    assert eager.ConstantOfShape([1], value=np.array([7], np.int64)).tolist() == [7]


def test_optional_inputs_are_none_or_named():
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    sizes = eager.Resize(x, None, None, [1, 1, 8])
    np.testing.assert_array_equal(sizes, eager.Resize(x, sizes=[1, 1, 8]))
    assert sizes.shape == (1, 1, 8)


def test_more_outputs_come_as_a_tuple():
    y = eager.Dropout(X)
    assert isinstance(y, np.ndarray)
    y, mask = eager.Dropout(X, outputs=2)
    assert mask.dtype == bool
    assert mask.all()
    first, second = eager.Split(X, [1, 2], axis=1)
    assert (first.shape, second.shape) == ((2, 1), (2, 2))
    first, second = eager.Split(X, num_outputs=2)
    assert first.shape == (1, 3)
    first, second = eager.opset(11).Split(X, split=[1, 2], axis=1)
    assert second.shape == (2, 2)


def test_sequences_are_lists():
    sequence = eager.SequenceConstruct(X, X + 1)
    assert isinstance(sequence, list)
    np.testing.assert_array_equal(eager.SequenceAt(sequence, 1), X + 1)
    np.testing.assert_array_equal(eager.ConcatFromSequence([X, X], axis=0), np.concatenate([X, X]))
    assert eager.SequenceLength([X, X, X]).tolist() == 3
    assert eager.SequenceLength(eager.SequenceEmpty()).tolist() == 0


def test_maps_are_dictionaries():
    y = eager.ml.DictVectorizer({"a": 1.5, "c": 2.0}, string_vocabulary=["a", "b", "c"])
    assert y.ravel().tolist() == [1.5, 0, 2]


def graphs(then, other):
    return {
        "then_branch": onnx.parser.parse_graph(f"t () => (float[N] y) {{ {then} }}"),
        "else_branch": onnx.parser.parse_graph(f"e () => (float[N] y) {{ {other} }}"),
    }


def test_graphs_are_attributes():
    branches = graphs("y = Constant <value = float[2] {1, 2}> ()", "y = Constant <value = float[1] {3}> ()")
    assert eager.If(True, **branches).tolist() == [1, 2]
    assert eager.If(False, **branches).tolist() == [3]
    as_ir = {name: ir.from_proto(graph) for name, graph in branches.items()}
    assert eager.If(np.array(False), **as_ir).tolist() == [3]


def test_outer_values_of_graphs_are_given_by_name(caplog):
    branches = graphs("y = Neg(outer)", "y = Add(outer, other)")
    outer, other = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    given = {"outer": outer, "other": other}
    assert eager.If(True, captures=given, **branches).tolist() == [-1, -2]
    assert eager.If(False, captures=given, **branches).tolist() == [11, 22]
    with pytest.raises(FeedError, match=r"outer values \['outer', 'other'\].*captures= has \['outer'\]"):
        eager.If(True, captures={"outer": outer}, **branches)
    assert caplog.text == ""


def test_graphs_inside_graphs_use_values_of_every_level():
    text = """o (int64 i, bool c, float[1] v) => (bool c2, float[1] v2) {
        c2 = Identity(c)
        local = Neg(v)
        v2 = If (c) <
            then_branch = t () => (float[1] a) { a = Sub(outer, local) },
            else_branch = e () => (float[1] b) { b = Identity(local) }
        >
    }"""
    start, outer = np.array([1], np.float32), np.array([10], np.float32)
    last = eager.Loop(3, True, start, body=onnx.parser.parse_graph(text), captures={"outer": outer})
    assert last.tolist() == [31]


def test_loops_run():
    body = onnx.parser.parse_graph("""b (int64 i, bool c, float[2] v) => (bool c2, float[2] v2, float[2] each) {
        c2 = Identity(c)
        v2 = Add(v, v)
        each = Identity(v2)
    }""")
    last, each = eager.Loop(3, True, np.ones(2, np.float32), body=body)
    assert last.tolist() == [8, 8]
    assert each.tolist() == [[2, 2], [4, 4], [8, 8]]


def test_kernels_are_kept_by_types_and_attributes():
    context = eager.context(providers=["cpu"])
    for _ in range(3):
        context.Softmax(X, axis=0)
    assert (context.cache_info().misses, context.cache_info().hits) == (1, 2)
    context.Softmax(X[0], axis=0)
    context.Softmax(X, axis=1)
    context.Softmax(X.astype(np.float64), axis=1)
    context.opset(12).Softmax(X, axis=1)
    assert context.cache_info().misses == 5
    context.Softmax(X[:1, :1], axis=1)
    assert context.cache_info().misses == 5
    context.cache_clear()
    assert context.cache_info().currsize == 0
    small = eager.context(providers=["cpu"], cache_size=2)
    for axis in (0, 1, -1):
        small.Softmax(X, axis=axis)
    assert small.cache_info().currsize == 2
    assert eager.cache_info().maxsize == 4096


def test_contexts_have_their_own_providers_and_opset():
    only = eager.context(providers=["reference"], opset=12)
    assert [provider.name for provider in only.providers] == ["reference"]
    assert "axes" in inspect.signature(only.Squeeze).parameters
    np.testing.assert_array_equal(only.Neg(X), -X)
    assert "Softmax" in dir(only)
    with pytest.raises(ConfigError, match="'cpp'"):
        _ = eager.context(providers=["cpp"]).Neg(X)
    with pytest.raises(AttributeError, match="_nothing"):
        _ = only._nothing


def test_signatures_and_texts_come_from_the_schema():
    assert {"Add", "Softmax", "context", "ml"} <= set(dir(eager))
    assert "Scaler" in dir(eager.ml)
    assert "Upsample" not in dir(eager)
    assert "Upsample" in dir(eager.opset(9))
    assert str(inspect.signature(eager.Softmax)) == "(input, *, axis=-1, outputs=None)"
    assert "B=None" in str(inspect.signature(eager.Conv))
    assert "*inputs" in str(inspect.signature(eager.Concat))
    assert eager.Softmax.__name__ == "Softmax"
    assert "axis" in eager.Softmax.__doc__
    assert "no schema" in eager.domain("com.example").Anything.__doc__
    assert "opset 12" in repr(eager.opset(12))


@pytest.mark.parametrize("version", range(1, onnx.defs.onnx_opset_version() + 1))
def test_every_operator_of_every_opset_has_a_signature(version):
    operators = eager.opset(version)
    names = [name for name in dir(operators) if name[:1].isupper()]
    assert len(names) > 80
    for name in names:
        function = getattr(operators, name)
        assert inspect.signature(function).parameters
        assert f"opset {version}" in function.__doc__


def test_threads_share_the_functions():
    failures = []

    def work(shape):
        for axis in range(len(shape)):
            x = np.random.default_rng().standard_normal(shape).astype(np.float32)
            found = eager.ReduceSum(x, [axis], keepdims=0)
            if not np.allclose(found, x.sum(axis), atol=1e-4):
                failures.append(shape)

    threads = [threading.Thread(target=work, args=((2,) * rank,)) for rank in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gemm", [(2, 3), (3, 4), (4,)], {"alpha": 0.5, "beta": 2.0}),
        ("Conv", [(1, 2, 5, 5), (3, 2, 3, 3), (3,)], {"pads": [1, 1, 1, 1]}),
        ("LayerNormalization", [(2, 5), (5,), (5,)], {"axis": -1, "epsilon": 1e-3}),
        ("MaxPool", [(1, 2, 6, 6)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->ki"}),
    ],
)
def test_results_are_those_of_onnx_runtime(op, inputs, attributes):
    random = np.random.default_rng()
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in inputs]
    names = [f"x{index}" for index in range(len(arrays))]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, ["y"], **attributes)], "g",
        [value(name, TensorProto.FLOAT, array.shape) for name, array in zip(names, arrays, strict=True)],
        [value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, dict(zip(names, arrays, strict=True)))
    np.testing.assert_allclose(
        getattr(eager.opset(17), op)(*arrays, **attributes), expected, rtol=1e-4, atol=1e-5
    )
