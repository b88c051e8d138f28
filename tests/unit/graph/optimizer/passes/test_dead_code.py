from graph_passes import check
from onnxgen.graph.optimizer.passes.dead_code import DEAD_CODE


def test_chains_nobody_uses_go_with_their_initializers():
    did = check(
        """g (float[N] x) => (float[N] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
            c = Add(a, b)
            d = Neg(c)
            y = Relu(x)
        }""",
        DEAD_CODE,
        ["y = Relu(x)"],
    )
    assert did == "2 unused nodes removed, 2 unused initializers removed"


def test_what_only_a_branch_uses_stays():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            e = Neg(x)
            y = If(c) <
                then_branch = t () => (float[2] a) { a = Abs(e) },
                else_branch = f () => (float[2] b) { b = Abs(x) }
            >
        }""",
        DEAD_CODE,
        None,
    )


def test_dead_nodes_inside_branches_go_and_then_what_only_they_used():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            e = Neg(x)
            y = If(c) <
                then_branch = t () => (float[2] a) { u = Abs(e) a = Abs(x) },
                else_branch = f () => (float[2] b) { b = Neg(x) }
            >
        }""",
        [DEAD_CODE],
        ["y = If(c) {else_branch=['b = Neg(x)'], then_branch=['a = Abs(x)']}"],
    )


def test_a_dead_loop_takes_what_it_captured_along():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            e = Neg(x)
            u = If(c) <
                then_branch = t () => (float[2] a) { a = Abs(e) },
                else_branch = f () => (float[2] b) { b = Neg(e) }
            >
            y = Relu(x)
        }""",
        DEAD_CODE,
        ["y = Relu(x)"],
    )


def test_initializers_that_can_be_fed_stay():
    check(
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Relu(x) }",
        DEAD_CODE,
        None,
    )


def test_optional_outputs_that_nobody_uses_are_not_asked_for():
    check(
        """g (float[N, 4] x) => (float[N, 4] y) <float[4] g = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4}> {
            y, m, v = LayerNormalization(x, g, b)
        }""",
        DEAD_CODE,
        ["y, _, _ = LayerNormalization(x, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])"],
    )


def test_outputs_that_must_be_there_stay():
    check(
        """g (float[4] x) => (int64[2] i) <int64[1] k = {2}> { v, i = TopK(x, k) }""",
        DEAD_CODE,
        None,
    )
    check(
        "g (float[4] x) => (float[2] a) { a, b = Split<num_outputs = 2>(x) }",
        DEAD_CODE,
        None,
    )
