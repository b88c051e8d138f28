import numpy as np
import onnx_ir as ir
import pytest

from graph_passes import apply, check, listing, parse
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.passes.constant_folding import CONSTANT_FOLDING


def test_what_depends_on_constants_only_is_computed_once():
    did = check(
        """g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
            c = Add(a, b)
            d = Mul(c, c)
            y = Add(x, d)
        }""",
        CONSTANT_FOLDING,
        ["y = Add(x, [16.0, 36.0])"],
    )
    assert did == "2 nodes folded, 16 bytes of results"


def test_an_output_of_the_graph_becomes_an_initializer_of_that_name():
    model = parse("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { y = Neg(a) }")
    apply(model, CONSTANT_FOLDING)
    assert listing(model) == []
    assert list(model.graph.outputs[0].const_value.numpy()) == [-1, -2]


def test_initializers_that_can_be_fed_are_no_constants():
    check(
        "g (float[2] x, float[2] a) => (float[2] y) <float[2] a = {1, 2}> { b = Neg(a) y = Add(x, b) }",
        CONSTANT_FOLDING,
        None,
        feeds={"a": np.float32([7, 8])},
    )


@pytest.mark.parametrize(
    "node",
    [
        "RandomNormal <shape = [2]> ()",
        "Bernoulli (a)",
        "RandomUniformLike (a)",
        "Dropout (a, half, true_)",
    ],
)
def test_random_numbers_are_no_constants(node):
    model = parse(
        f"""g (float[2] x) => (float[2] y) <float[2] a = {{0.5, 0.5}}, float half = {{0.5}}, bool true_ = {{1}}> {{
            b = {node}
            y = Add(x, b)
        }}"""
    )
    assert apply(model, CONSTANT_FOLDING) == ""


@pytest.mark.parametrize(
    "node",
    [
        "ConstantOfShape (huge)",
        "Range (zero, large, one)",
        "Expand (zero, huge)",
        "Tile (zeros, huge)",
        "Resize (zeros, , , huge)",
        "HannWindow (large)",
        "com.microsoft.Range (zero, large)",
        "com.microsoft.UnfoldTensor <size = 1> (huge)",
    ],
)
def test_results_that_take_much_memory_are_not_computed(node):
    model = parse(
        f"""g (float[1] x) => (float[A, B] y)
        <int64[2] huge = {{1000000, 1000000}}, int64 zero = {{0}}, int64 one = {{1}},
         int64 large = {{1000000000000}}, int64[1, 1] zeros = {{0}}> {{
            b = {node}
            c = Cast<to = 1>(b)
            y = Add(x, c)
        }}"""
    )
    assert apply(model, CONSTANT_FOLDING) == ""


def test_large_results_are_kept_when_their_input_goes():
    large = ir.tensor(np.ones((600, 600), np.float32), name="w")
    text = "g (float[600] x) => (float[600] y) <float[600, 600] w> { t = Transpose(w) y = MatMul(x, t) }"
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]>' + text, initializers=[large])
    assert apply(model, CONSTANT_FOLDING) == "1 nodes folded, 1440000 bytes of results"


def test_large_results_are_not_kept_beside_their_input():
    large = ir.tensor(np.ones((600, 600), np.float32), name="w")
    text = """g (float[600] x) => (float[600] y) <float[600, 600] w> {
        t = Transpose(w)
        a = MatMul(x, w)
        y = MatMul(a, t)
    }"""
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]>' + text, initializers=[large])
    assert apply(model, CONSTANT_FOLDING) == ""


def test_quantized_weights_stay_quantized():
    check(
        """g (float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}> {
            d = DequantizeLinear(w, s)
            y = Add(x, d)
        }""",
        CONSTANT_FOLDING,
        None,
    )


def test_a_node_that_fails_is_left_to_the_run_that_reaches_it():
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) <int64[2] seven = {7, 7}, float[2] a = {1, 2}> {
            y = If(c) <
                then_branch = t () => (float[2] p) { q = Gather(a, seven) p = Add(q, x) },
                else_branch = f () => (float[2] b) { b = Abs(x) }
            >
        }"""
    )
    assert apply(model, CONSTANT_FOLDING) == ""


def test_constants_of_outer_graphs_are_constants_in_branches():
    check(
        """g (bool c, float[2] x) => (float[2] y) <float[2] k = {1, -2}> {
            y = If(c) <
                then_branch = t () => (float[2] a) { p = Abs(k) a = Mul(x, p) },
                else_branch = f () => (float[2] b) { b = Abs(x) }
            >
        }""",
        CONSTANT_FOLDING,
        ["y = If(c) {else_branch=['b = Abs(x)'], then_branch=['a = Mul(x, [1.0, 2.0])']}"],
    )


def test_without_somebody_to_run_nodes_nothing_is_folded():
    model = parse("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { b = Neg(a) y = Add(x, b) }")
    assert not CONSTANT_FOLDING.run(Context(model, can_run=lambda _: True))


def test_strings_and_optional_outputs_are_folded():
    model = parse(
        """g (float[2] x) => (string[2] s, float[1] v, float[2] y) <float[2] a = {1, 2}, int64[1] k = {1}> {
            s = Cast<to = 8>(a)
            v, i = TopK(a, k)
            y = Neg(x)
        }"""
    )
    apply(model, CONSTANT_FOLDING)
    assert listing(model) == ["y = Neg(x)"]
    assert [o.const_value.dtype for o in model.graph.outputs[:2]] == [ir.DataType.STRING, ir.DataType.FLOAT]
