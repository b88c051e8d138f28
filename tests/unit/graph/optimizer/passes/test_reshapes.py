import numpy as np
import pytest

from graph_passes import apply, check, listing, parse
from onnxgen.graph.optimizer.passes.reshapes import RESHAPES
from onnxgen.graph.shapes import infer_shapes


def test_the_last_shape_counts():
    check(
        """g (float[2, 6] x) => (float[A, B] y) <int64[3] s = {3, 2, 2}, int64[2] t = {4, -1}> {
            a = Reshape(x, s)
            y = Reshape(a, t)
        }""",
        RESHAPES,
        ["y = Reshape(x, [4, -1])"],
    )


def test_a_copied_size_is_taken_from_the_shape_between():
    check(
        """g (float[N, 6] x) => (float[A, B, C] y) <int64[3] s = {0, 2, 3}, int64[3] t = {0, 0, -1}> {
            a = Reshape(x, s)
            y = Reshape(a, t)
        }""",
        RESHAPES,
        ["y = Reshape(x, [0, 2, -1])"],
    )


@pytest.mark.parametrize("form", ["Reshape (x, s)", "Flatten <axis = 1> (x)"])
def test_a_copied_size_that_is_not_known_stays(form):
    check(
        f"""g (float[N, 6] x) => (float[A, B] y) <int64[3] s = {{-1, 2, 3}}, int64[2] t = {{0, -1}}> {{
            a = {form}
            y = Reshape(a, t)
        }}""",
        RESHAPES,
        None,
    )


def test_zero_may_mean_empty():
    check(
        """g (float[0, 6] x) => (float[A, B] y) <int64[3] s = {3, 0, 2}, int64[2] t = {0, 5}> {
            a = Reshape<allowzero = 1>(x, s)
            y = Reshape<allowzero = 1>(a, t)
        }""",
        RESHAPES,
        ["y = Reshape(x, [0, 5]) {allowzero=1}"],
    )


def test_a_shape_that_is_computed_may_have_zeros():
    check(
        """g (float[2, 6] x, int64[2] t) => (float[A, B] y) <int64[3] s = {3, 2, 2}> {
            a = Reshape(x, s)
            y = Reshape(a, t)
        }""",
        RESHAPES,
        None,
        feeds={"t": np.array([3, 4])},
    )


@pytest.mark.parametrize("form", ["Squeeze (x, axes)", "Unsqueeze (x, axes)", "Flatten <axis = 1> (x)"])
def test_other_changes_of_form_go_too(form):
    model = parse(
        f"""g (float[N, 1, 6] x) => (float[A, B] y) <int64[1] axes = {{1}}, int64[2] t = {{-1, 3}}> {{
            a = {form}
            y = Reshape(a, t)
        }}"""
    )
    assert apply(model, RESHAPES) == "1 reshapes merged"
    assert listing(model)[-1] == "y = Reshape(x, [-1, 3])"


def test_squeeze_undoes_unsqueeze():
    check(
        """g (float[N, M] x) => (float[N, M] y) <int64[2] a = {1, 3}, int64[2] b = {-1, 1}> {
            u = Unsqueeze(x, a)
            s = Squeeze(u, b)
            y = Neg(s)
        }""",
        RESHAPES,
        ["y = Neg(x)"],
    )


def test_unsqueeze_undoes_squeeze():
    check(
        """g (float[N, 1, M] x) => (float[N, 1, M] y) <int64[1] a = {1}> {
            s = Squeeze(x, a)
            u = Unsqueeze(s, a)
            y = Neg(u)
        }""",
        RESHAPES,
        ["y = Neg(x)"],
    )


def test_other_axes_stay():
    check(
        """g (float[1, M] x) => (float[A, B] y) <int64[1] a = {2}, int64[1] b = {0}> {
            u = Unsqueeze(x, a)
            y = Squeeze(u, b)
        }""",
        RESHAPES,
        None,
    )


@pytest.mark.parametrize(
    ("first", "second"), [([0], [1]), ([1], [0]), ([0, 3], [1, 2]), ([-1], [-1]), ([2, 0], [0])]
)
def test_two_unsqueezes_are_one(first, second):
    model_text = f"""g (float[2, 3] x) => (float y)
    <int64[{len(first)}] a = {{{", ".join(map(str, first))}}}, int64[{len(second)}] b = {{{", ".join(map(str, second))}}}> {{
        u = Unsqueeze(x, a)
        v = Unsqueeze(u, b)
        s = Shape(v)
        f = Cast<to = 1>(s)
        p = ReduceMax<keepdims = 0>(f)
        w = Mul(v, p)
        y = ReduceSum<keepdims = 0>(w)
    }}"""
    _check_form(model_text, "Unsqueeze")


@pytest.mark.parametrize(
    ("first", "second"), [([0], [1]), ([2], [0]), ([0, 4], [1]), ([-1], [-1]), ([2, 0], [0])]
)
def test_two_squeezes_are_one(first, second):
    _check_form(
        f"""g (float[1, 1, 1, 1, 1] x) => (float y)
        <int64[{len(first)}] a = {{{", ".join(map(str, first))}}}, int64[{len(second)}] b = {{{", ".join(map(str, second))}}}> {{
            u = Squeeze(x, a)
            v = Squeeze(u, b)
            y = ReduceSum<keepdims = 0>(v)
        }}""",
        "Squeeze",
    )


def _check_form(text: str, op_type: str) -> None:
    model = parse(text)
    before = [node.outputs[0].shape for node in model.graph if node.op_type == op_type][-1]
    assert apply(model, RESHAPES) == f"1 {op_type}s merged"
    last = [node for node in model.graph if node.op_type == op_type][-1]
    last.outputs[0].shape = None
    infer_shapes(model)
    assert last.outputs[0].shape == before
    assert last.inputs[0].name == "x"


def test_axes_are_attributes_before_opset_13():
    model = parse(
        """g (float[2, 3] x) => (float[1, 1, 2, 3] y) {
            u = Unsqueeze<axes = [0]>(x)
            y = Unsqueeze<axes = [0]>(u)
        }""",
        opset=11,
    )
    apply(model, RESHAPES)
    assert listing(model)[-1] == "y = Unsqueeze(x) {axes=[0, 1]}"
