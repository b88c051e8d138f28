import pytest

from graph_passes import apply, check, listing, parse
from onnxgen.graph.optimizer.passes.dead_code import DEAD_CODE
from onnxgen.graph.optimizer.passes.no_ops import REMOVE_NO_OPS

CONSTANTS = """<int64[2] zeros = {0, 0}, int64[4] zeros4 = {0, 0, 0, 0}, int64[1] zero = {0}, int64[1] one = {1},
    int64[1] two = {2}, int64[1] max = {9223372036854775807}, int64[2] shape = {2, 3}, int64[2] copy = {0, 0},
    int64[2] open = {2, -1}, int64[2] ones = {1, 1}, int64[2] other = {3, 2}, float half = {0.5}, bool no = {0},
    int64[4] pads = {0, 0, 0, 1}, int64[1] three = {3}>"""


@pytest.mark.parametrize(
    "node",
    [
        "Identity (x)",
        "Dropout (x)",
        "Dropout (x, half)",
        "Dropout (x, half, no)",
        "Cast <to = 1> (x)",
        "CastLike (x, half)",
        "Reshape (x, shape)",
        "Reshape (x, copy)",
        "Reshape (x, open)",
        "Expand (x, shape)",
        "Expand (x, ones)",
        "Expand (x, one)",
        "Transpose <perm = [0, 1]> (x)",
        "Pad (x, zeros4)",
        "Pad (x, zeros, , one)",
        "Slice (x, zeros, shape)",
        "Slice (x, zero, max, one)",
        "Slice (x, zero, three, one, one)",
        "Concat <axis = 0> (x)",
        "Sum (x)",
        "Max (x)",
        "Split <num_outputs = 1> (x)",
        "Flatten (x)",
        "Tile (x, ones)",
    ],
)
def test_nodes_without_effect_go(node):
    check(
        f"g (float[2, 3] x) => (float[2, 3] y) {CONSTANTS} {{ a = {node} y = Neg(a) }}",
        REMOVE_NO_OPS,
        ["y = Neg(x)"],
    )


@pytest.mark.parametrize(
    "node",
    [
        "Cast <to = 11> (x)",
        "Reshape (x, other)",
        "Transpose (x)",
        "Pad (x, pads)",
        "Slice (x, zero, two, one)",
        "Slice (x, one, max, one)",
        "Slice (x, zero, max, one, two)",
        "Concat <axis = 0> (x, x)",
        "Sum (x, x)",
        "Flatten <axis = 0> (x)",
        "Tile (x, shape)",
        "ReduceSum (x)",
    ],
)
def test_nodes_with_an_effect_stay(node):
    check(
        f"g (float[2, 3] x) => (float[A, B] y) {CONSTANTS} {{ a = {node} y = Neg(a) }}",
        REMOVE_NO_OPS,
        None,
    )


@pytest.mark.parametrize(
    "node", ["Reshape (x, shape)", "Expand (x, shape)", "Reshape (x, open)", "Flatten (z)"]
)
def test_symbols_do_not_say_that_a_shape_stays(node):
    model = parse(
        f"g (float[N, M] x, float[N, M, K] z) => (float[A, B] y) {CONSTANTS} {{ a = {node} y = Neg(a) }}"
    )
    assert apply(model, REMOVE_NO_OPS) == ""


def test_one_open_size_is_what_is_left():
    check(
        "g (float[N, 2, 3] x) => (float[N, 2, 3] y) <int64[3] s = {-1, 2, 3}> { a = Reshape(x, s) y = Neg(a) }",
        REMOVE_NO_OPS,
        ["y = Neg(x)"],
    )
    check(
        "g (float[N, 3, 2] x) => (float[A, 2, 3] y) <int64[3] s = {-1, 2, 3}> { a = Reshape(x, s) y = Neg(a) }",
        REMOVE_NO_OPS,
        None,
    )


def test_two_open_sizes_say_nothing():
    check(
        "g (float[N, M] x) => (float[A, B] y) <int64[2] s = {0, -1}> { a = Reshape(x, s) y = Neg(a) }",
        REMOVE_NO_OPS,
        None,
    )


def test_the_outputs_of_the_graph_keep_their_names():
    check(
        "g (float[N] x) => (float[N] y, float[N] z) { a = Neg(x) y = Identity(a) b = Abs(a) z = Identity(b) }",
        REMOVE_NO_OPS,
        ["y = Neg(x)", "z = Abs(y)"],
    )


def test_an_input_is_not_an_output():
    check("g (float[N] x) => (float[N] y) { y = Identity(x) }", REMOVE_NO_OPS, None)


def test_one_value_is_not_two_outputs():
    check("g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Identity(y) }", REMOVE_NO_OPS, None)


def test_a_value_of_an_outer_graph_is_not_the_output_of_a_branch():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            e = Neg(x)
            y = If(c) <
                then_branch = t () => (float[2] a) { a = Identity(e) },
                else_branch = f () => (float[2] b) { d = Identity(e) b = Abs(d) }
            >
        }""",
        REMOVE_NO_OPS,
        ["t0 = Neg(x)", "y = If(c) {else_branch=['b = Abs(t0)'], then_branch=['a = Identity(t0)']}"],
    )


def test_uses_inside_branches_follow():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            e = Identity(x)
            y = If(c) <
                then_branch = t () => (float[2] a) { a = Neg(e) },
                else_branch = f () => (float[2] b) { b = Abs(e) }
            >
        }""",
        REMOVE_NO_OPS,
        ["y = If(c) {else_branch=['b = Abs(x)'], then_branch=['a = Neg(x)']}"],
    )


def test_dropout_whose_mask_is_used_or_that_may_train_stays():
    check(
        "g (float[2] x) => (float[2] y, bool[2] m) { a, m = Dropout(x) y = Neg(a) }",
        REMOVE_NO_OPS,
        None,
    )
    model = parse(
        "g (float[2] x, bool t) => (float[2] y) <float r = {0.5}> { a = Dropout(x, r, t) y = Neg(a) }"
    )
    assert apply(model, REMOVE_NO_OPS) == ""


@pytest.mark.parametrize(("attributes", "goes"), [("<is_test = 1>", True), ("", False)])
def test_old_dropout_says_whether_it_trains(attributes, goes):
    model = parse(f"g (float[2] x) => (float[2] y) {{ a = Dropout {attributes} (x) y = Neg(a) }}", opset=6)
    assert bool(apply(model, REMOVE_NO_OPS)) is goes


def test_old_forms_with_attributes():
    model = parse(
        """g (float[2, 3] x) => (float[2, 3] y) {
            a = Pad <pads = [0, 0, 0, 0]> (x)
            b = Slice <starts = [0], ends = [9], axes = [1]> (a)
            y = Neg(b)
        }""",
        opset=9,
    )
    apply(model, [REMOVE_NO_OPS, DEAD_CODE])
    assert listing(model) == ["y = Neg(x)"]
