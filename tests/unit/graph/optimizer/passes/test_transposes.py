from graph_passes import check
from onnxgen.graph.optimizer.passes.transposes import TRANSPOSES


def test_two_become_one():
    check(
        "g (float[2, 3, 4] x) => (float[A, B, C] y) { a = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [0, 2, 1]>(a) }",
        TRANSPOSES,
        ["y = Transpose(x) {perm=[1, 0, 2]}"],
    )


def test_there_and_back_goes():
    check(
        """g (float[A, B, C] x) => (float[A, B, C] y) {
            a = Transpose<perm = [1, 2, 0]>(x)
            b = Transpose<perm = [2, 0, 1]>(a)
            y = Neg(b)
        }""",
        TRANSPOSES,
        ["y = Neg(x)"],
    )


def test_the_default_reverses():
    check(
        "g (float[A, B] x) => (float[A, B] y) { a = Transpose(x) b = Transpose(a) y = Neg(b) }",
        TRANSPOSES,
        ["y = Neg(x)"],
    )


def test_an_input_that_would_be_an_output_stays_a_node():
    check(
        "g (float[A, B] x) => (float[A, B] y) { a = Transpose(x) y = Transpose(a) }",
        TRANSPOSES,
        ["y = Transpose(x) {perm=[0, 1]}"],
    )


def test_a_value_that_is_an_output_stays():
    check(
        "g (float[A, B] x) => (float[B, A] a, float[A, B] y) { a = Transpose(x) b = Transpose(a) y = Neg(b) }",
        TRANSPOSES,
        ["a = Transpose(x)", "y = Neg(x)"],
    )
