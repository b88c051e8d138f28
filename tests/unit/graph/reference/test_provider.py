import ml_dtypes
import numpy as np
import onnx.helper as h
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, node_spec
from onnxgen.graph.ep.from_graph import node_spec as spec_of
from onnxgen.graph.ep.provider import Claim, Decline, ExecutionProvider
from onnxgen.graph.reference.provider import ReferenceProvider

REFERENCE = ReferenceProvider()
F = np.float32


def run(op_type, *inputs, **options):
    node = node_spec(op_type, *inputs, **options)
    claim = REFERENCE.claim(node)
    assert isinstance(claim, Claim), claim
    return REFERENCE.compile(node, claim).run(*inputs)


def declined(op_type, *inputs, **options):
    claim = REFERENCE.claim(node_spec(op_type, *inputs, **options))
    assert isinstance(claim, Decline)
    return claim.reason


def floats(name):
    return h.make_tensor_value_info(name, 1, None)


def text(*strings):
    array = np.empty(len(strings), object)
    array[:] = strings
    return array


def test_it_is_an_execution_provider_of_the_host():
    assert isinstance(REFERENCE, ExecutionProvider)
    assert REFERENCE.device == "cpu"
    memory = REFERENCE.allocate(100)
    assert memory.nbytes == 100 and memory.ctypes.data % 64 == 0
    assert REFERENCE.to_host(REFERENCE.to_device(memory)) is memory


def test_reductions_to_rank_0_are_arrays():
    y = run("ReduceSum", np.array([1, 2], F), opset=17, keepdims=0)
    assert isinstance(y, np.ndarray) and y.shape == () and y == 3


def test_views_of_inputs_are_copied():
    x = np.arange(6, dtype=F).reshape(2, 3)
    for op_type, options in (("Identity", {}), ("Transpose", {}), ("Flatten", {})):
        assert not np.may_share_memory(run(op_type, x, **options), x)


def test_elements_of_sequences_are_copies_of_tensors():
    x = np.ones(3, F)
    (element,) = run("SequenceConstruct", x)
    assert not np.may_share_memory(element, x)
    assert not np.may_share_memory(run("SequenceAt", [x], np.array(0)), x)


def test_inputs_may_be_read_only_and_strided():
    x = np.arange(12, dtype=F).reshape(3, 4)[::2, ::-1]
    x.flags.writeable = False
    assert_same(run("Relu", x), x)


def test_strings_go_in_and_come_out_as_objects():
    y = run("StringConcat", text("a", "ä"), text("b", "空"), opset=20)
    assert y.dtype == object and y.tolist() == ["ab", "ä空"] and type(y[0]) is str


def test_bfloat16_and_int4_are_those_of_ml_dtypes():
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert run("Neg", x).dtype == ml_dtypes.bfloat16
    y = run("Cast", np.array([1.0, -8.0], F), opset=21, to=ir.DataType.INT4.value)
    assert y.dtype == ml_dtypes.int4 and y.astype(int).tolist() == [1, -8]


def test_outputs_that_nobody_wants_are_none():
    values, indices = run("TopK", np.array([3, 1, 2], F), np.array([2]), outputs=[False, True])
    assert values is None and indices.tolist() == [0, 2]


def test_an_empty_optional_is_none():
    assert run("OptionalHasElement", None, opset=18) == np.array(False)


def test_a_function_stands_in_for_a_missing_class():
    x = np.array([-4, 0, 4], F)
    assert_same(run("HardSwish", x), np.array([0, 0, 4], F))
    assert_same(run("Gelu", x, opset=20), np.array([-0.000127, 0, 3.999873], F), atol=1e-5)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert_same(run("Gelu", x, opset=20, approximate="tanh"), tanh.astype(F), atol=1e-5)


def test_a_function_sees_the_types_of_each_call():
    node = node_spec("Mish", np.ones(1, F), opset=18)
    kernel = REFERENCE.compile(node, REFERENCE.claim(node))
    assert kernel.run(np.ones(2, np.float64)).dtype == np.float64
    assert kernel.run(np.ones((2, 2), F)).dtype == F


def test_declines_say_why():
    assert declined("NoSuchOperator") == "is no operator of the standard"
    assert declined("Gelu", np.ones(1, F), domain="com.microsoft") == "is no operator of the standard"
    assert "version 1" in declined("Gradient", domain="ai.onnx.preview.training", opset=1)


def test_warnings_of_numpy_are_not_raised():
    assert np.isnan(run("Log", np.array([-1], F))[0])


def sequence_map(body, sequence, *more):
    """A SequenceMap node inside a graph that has a value ``outer``."""
    outer = ir.Value(name="outer", type=ir.TensorType(ir.DataType.FLOAT))
    graph = ir.from_proto(body)
    for node in graph:
        for index, value in enumerate(node.inputs):
            if value is not None and value.name == "outer":
                node.replace_input_with(index, outer)
    inputs = [ir.Value(name=f"i{index}") for index in range(1 + len(more))]
    outputs = [ir.Value(name="y")]
    return spec_of(ir.node("SequenceMap", inputs, {"body": graph}, outputs=outputs), {"": 17})


def test_graphs_see_outer_values_and_go_along_other_sequences():
    body = h.make_graph(
        [h.make_node("Add", ["a", "b"], ["s"]), h.make_node("Mul", ["s", "outer"], ["y"])],
        "body",
        [floats("a"), floats("b")],
        [floats("y")],
    )
    node = sequence_map(body, ..., ...)
    assert node.captures == ("outer",)
    kernel = REFERENCE.compile(node, REFERENCE.claim(node))
    several = [np.array([1], F), np.array([2], F)]
    outer = np.array([10], F)
    assert [y.tolist() for y in kernel.run(several, several, outer)] == [[20], [40]]
    assert [y.tolist() for y in kernel.run(several, np.array([5], F), outer)] == [[60], [70]]
    assert kernel.run([], np.array([5], F), outer) == []


def test_a_graph_with_an_unknown_operator_is_declined_by_its_name():
    value = h.make_tensor_value_info("a", 1, None)
    body = h.make_graph(
        [h.make_node("Nope", ["a"], ["y"])], "body", [value], [h.make_tensor_value_info("y", 1, None)]
    )
    claim = REFERENCE.claim(sequence_map(body, ...))
    assert isinstance(claim, Decline) and "Nope" in claim.reason


def test_flex_attention_changes_scores_with_outer_values():
    value = h.make_tensor_value_info("s", 1, None)
    graph = h.make_graph(
        [h.make_node("Mul", ["s", "zero"], ["y"])], "mod", [value], [h.make_tensor_value_info("y", 1, None)]
    )
    zero = ir.Value(name="zero")
    mod = ir.from_proto(graph)
    mod[0].replace_input_with(1, zero)
    inputs = [ir.Value(name=name) for name in "qkv"]
    node = spec_of(
        ir.node(
            "FlexAttention",
            inputs,
            {"score_mod": mod},
            domain="ai.onnx.preview",
            outputs=[ir.Value(name="y")],
        ),
        {"ai.onnx.preview": 1},
    )
    q, k, v = (np.random.default_rng(0).standard_normal((1, 1, 2, 4)).astype(F) for _ in range(3))
    y = REFERENCE.compile(node, REFERENCE.claim(node)).run(q, k, v, np.array(0, F))
    assert_same(y, np.broadcast_to(v.mean(axis=2, keepdims=True), v.shape))


@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [
        ("RandomNormal", (), {"shape": [50], "seed": 7.0}),
        ("RandomUniform", (), {"shape": [50], "seed": 7.0, "low": 2.0, "high": 3.0}),
        ("RandomNormalLike", (np.zeros(50, F),), {"seed": 7.0}),
        ("RandomUniformLike", (np.zeros(50, F),), {"seed": 7.0}),
        ("Bernoulli", (np.full(50, 0.5, F),), {"seed": 7.0}),
        ("Multinomial", (np.zeros((1, 3), F),), {"seed": 7.0, "sample_size": 50}),
        ("Dropout", (np.ones(50, F), np.array(0.5, F), np.array(True)), {"seed": 7}),
    ],
)
def test_a_seed_gives_the_same_stream_and_the_stream_goes_on(op_type, inputs, options):
    node = node_spec(op_type, *inputs, **options)
    one, other = (REFERENCE.compile(node, REFERENCE.claim(node)) for _ in range(2))
    first, second = one.run(*inputs), one.run(*inputs)
    assert_same(other.run(*inputs), first)
    assert_same(other.run(*inputs), second)
    assert not np.array_equal(first, second)


def test_without_a_seed_two_nodes_draw_differently():
    assert not np.array_equal(run("RandomNormal", shape=[50]), run("RandomNormal", shape=[50]))


def test_draws_have_the_distribution_that_was_asked_for():
    normal = run("RandomNormal", shape=[20_000], seed=1.0, mean=3.0, scale=0.5)
    assert normal.dtype == F and abs(normal.mean() - 3) < 0.05 and abs(normal.std() - 0.5) < 0.05
    uniform = run("RandomUniform", shape=[20_000], seed=1.0, low=2.0, high=4.0, dtype=11)
    assert (
        uniform.dtype == np.float64
        and uniform.min() >= 2
        and uniform.max() < 4
        and abs(uniform.mean() - 3) < 0.05
    )
    assert abs(run("Bernoulli", np.full(20_000, 0.3, F), seed=1.0).mean() - 0.3) < 0.03
    drawn = run("Multinomial", np.log(np.array([[1, 0, 3]], F) + F(1e-30)), seed=1.0, sample_size=20_000)
    assert drawn.dtype == np.int32 and abs((drawn == 2).mean() - 0.75) < 0.03 and not (drawn == 1).any()
    y, kept = run("Dropout", np.ones(20_000, F), np.array(0.25, F), np.array(True), seed=1, outputs=2)
    assert abs(kept.mean() - 0.75) < 0.03 and set(np.unique(y)) == {F(0), F(4 / 3)}


def test_declared_element_types_win():
    ratio = np.array(0.5, np.float64)  # the class computes in the type of the ratio
    node = node_spec("Dropout", np.ones(2, F), ratio, output_types=[ir.DataType.FLOAT])
    assert REFERENCE.compile(node, REFERENCE.claim(node)).run(np.ones(2, F), ratio).dtype == F
    node = node_spec("Neg", np.ones(2, F), output_types=[ir.DataType.DOUBLE])
    assert REFERENCE.compile(node, REFERENCE.claim(node)).run(np.ones(2, F)).dtype == np.float64
