import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.transpose_sinking import TRANSPOSE_SINKING
from onnxgen.graph.optimizer.passes.transposes import TRANSPOSES

IO = "g (float[N, 4, 5, 6] x, float[N, 4, 5, 6] z) => (float[N, 4, 5, 6] y)"
DOWN, UP = "Transpose<perm = [0, 2, 3, 1]>", "Transpose<perm = [0, 3, 1, 2]>"


def test_layouts_that_change_there_and_back():
    check(
        f"""{IO} <float low = {{0}}, float[4] bias = {{1, 2, 3, 4}}> {{
            a = {DOWN}(x) b = Relu(a) c = Add(b, bias) d = Clip(c, low) e = {UP}(d) y = Neg(e)
        }}""",
        [TRANSPOSE_SINKING, TRANSPOSES],
        [
            "t0 = Relu(x)",
            "t1 = Add(t0, [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]])",
            "t2 = Clip(t1, 0.0)",
            "y = Neg(t2)",
        ],
    )


def test_two_operands_with_the_same_change():
    check(
        f"{IO} {{ a = {DOWN}(x) b = {DOWN}(z) c = Sub(b, a) d = {UP}(c) y = Neg(d) }}",
        [TRANSPOSE_SINKING, TRANSPOSES],
        ["t0 = Sub(z, x)", "y = Neg(t0)"],
    )


def test_concatenation_on_the_axis_from_before():
    check(
        f"{IO.replace('N, 4, 5, 6] y', 'N, 8, 5, 6] y')} {{ a = {DOWN}(x) b = {DOWN}(z) c = Concat<axis = -1>(a, b) d = {UP}(c) y = Neg(d) }}",
        [TRANSPOSE_SINKING, TRANSPOSES],
        ["t0 = Concat(x, z) {axis=1}", "y = Neg(t0)"],
    )


def test_another_change_merges():
    check(
        f"{IO.replace('N, 4, 5, 6] y', 'N, 6, 4, 5] y')} {{ a = {DOWN}(x) b = Relu(a) y = Transpose<perm = [0, 2, 3, 1]>(b) }}",
        [TRANSPOSE_SINKING, TRANSPOSES],
        ["t0 = Relu(x)", "y = Transpose(t0) {perm=[0, 3, 1, 2]}"],
    )


@pytest.mark.parametrize(
    "body",
    [
        # nothing to meet
        f"a = {DOWN}(x) b = Relu(a) c = Softmax<axis = 1>(b) y = {UP}(c)",
        # an operand that did not change
        f"a = {DOWN}(x) b = Reshape(z, s) c = Add(a, b) y = {UP}(c)",
        # another change
        f"a = {DOWN}(x) b = Transpose<perm = [0, 2, 1, 3]>(z) d = Reshape(b, s) c = Add(a, d) y = {UP}(c)",
    ],
)
def test_other_transposes_stay(body):
    check(f"{IO} <int64[4] s = {{-1, 5, 6, 4}}> {{ {body} }}", TRANSPOSE_SINKING, None)


def test_a_value_that_others_use_stays():
    check(
        f"{IO.replace('6] y)', '6] y, float[N, 5, 6, 4] a)')} {{ a = {DOWN}(x) b = Relu(a) y = {UP}(b) }}",
        TRANSPOSE_SINKING,
        None,
    )
