import numpy as np
import pytest

from graph_passes import apply, check, feeds_of, listing, parse, run, same
from onnxgen.graph.optimizer.passes.constant_shapes import CONSTANT_SHAPES
from onnxgen.graph.optimizer.passes.dead_code import DEAD_CODE

CONSTANTS = """<int64 i0 = {0}, int64 i1 = {1}, int64[1] v0 = {0}, int64[1] v1 = {1}, int64[1] two = {2}, int64[1] three = {3},
    int64[1] open = {-1}, float[6, 6] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
    25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36}, float[6] bias = {1, 2, 3, 4, 5, 6}>"""
SIZES = "s = Shape(x) b0 = Gather(s, i0) b = Unsqueeze(b0, v0) t0 = Gather(s, i1) t = Unsqueeze(t0, v0)"


def test_heads_of_a_projection():
    check(
        f"""g (float[B, S, 6] x) => (float[A, C, 2, 3] y) {CONSTANTS} {{
            {SIZES} p = MatMul(x, w) q = Add(bias, p) r = Relu(q)
            shape = Concat<axis = 0>(b, t, two, three) y = Reshape(r, shape)
        }}""",
        [CONSTANT_SHAPES, DEAD_CODE],
        [
            "t0 = MatMul(x, float[6,6])",
            "t1 = Add([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], t0)",
            "t2 = Relu(t1)",
            "y = Reshape(t2, [0, 0, 2, 3])",
        ],
    )


@pytest.mark.parametrize(
    "shape",
    [
        "k = Slice(s, v0, two) shape = Concat<axis = 0>(k, two, open)",
        "k = Shape<end = 2>(x) shape = Concat<axis = 0>(k, two, open)",
        "shape = Concat<axis = 0>(b, t, two, three)",
    ],
)
def test_ways_to_ask_for_sizes(shape):
    model = parse(
        f"g (float[B, S, 6] x) => (float[A, C, D, E] y) {CONSTANTS} {{ {SIZES} {shape} y = Reshape(x, shape) }}"
    )
    feeds = feeds_of(model, np.random.default_rng())
    before = run(model, feeds)
    assert apply(model, [CONSTANT_SHAPES]) == "1 shapes made constant"
    assert listing(model)[-1] in ("y = Reshape(x, [0, 0, 2, -1])", "y = Reshape(x, [0, 0, 2, 3])")
    same(before, run(model, feeds), 0)


def test_axes_are_followed_through_transposes():
    model = parse(
        f"""g (float[B, S, 2, 3] x) => (float[A, C, 6] y) {CONSTANTS} {{
            {SIZES} h = Transpose<perm = [0, 2, 1, 3]>(x) n = Softmax(h) o = Transpose<perm = [0, 2, 1, 3]>(n)
            shape = Concat<axis = 0>(b, t, open) y = Reshape(o, shape)
        }}"""
    )
    apply(model, CONSTANT_SHAPES)
    assert listing(model)[-1] == "y = Reshape(t2, [0, 0, -1])" or listing(model)[-1].endswith(", [0, 0, -1])")


def test_the_rows_of_a_table():
    model = parse(
        f"""g (int64[B, S] x) => (float[A, C, 2, 3] y) {CONSTANTS} {{
            {SIZES} e = Gather(w, x) shape = Concat<axis = 0>(b, t, two, three) y = Reshape(e, shape)
        }}"""
    )
    apply(model, CONSTANT_SHAPES)
    assert listing(model)[-1].endswith(", [0, 0, 2, 3])")


def test_one_size_that_is_not_known_is_what_is_left():
    model = parse(
        f"""g (float[B, 6] x, int64[1] n) => (float[A, 3] y) {CONSTANTS} {{
            shape = Concat<axis = 0>(n, three) y = Reshape(x, shape)
        }}"""
    )
    apply(model, CONSTANT_SHAPES)
    assert listing(model) == ["y = Reshape(x, [-1, 3])"]


@pytest.mark.parametrize(
    "body",
    [
        # sizes of another input, though the symbols are the same
        "s = Shape(z) k = Slice(s, v0, two) shape = Concat<axis = 0>(k, two, three) y = Reshape(x, shape)",
        # the other operand may be the one that is wider
        "a = Add(z, x) s = Shape(x) k = Slice(s, v0, two) shape = Concat<axis = 0>(k, two, three) y = Reshape(a, shape)",
        # an axis that is somewhere else afterwards
        "a = Transpose<perm = [1, 0, 2]>(x) s = Shape(x) k = Slice(s, v0, two) shape = Concat<axis = 0>(k, two, three) y = Reshape(a, shape)",
        # sizes that are computed
        "s = Shape(x) k = Slice(s, v0, two) m = Mul(k, v1) shape = Concat<axis = 0>(m, two, three) y = Reshape(x, shape)",
        # an axis that was cut
        "a = Slice(x, v0, two, v0) s = Shape(x) k = Slice(s, v0, two) shape = Concat<axis = 0>(k, two, three) y = Reshape(a, shape)",
    ],
)
def test_sizes_of_other_axes_stay(body):
    model = parse(f"g (float[B, S, 6] x, float[B, S, 6] z) => (float[A, C, 2, 3] y) {CONSTANTS} {{ {body} }}")
    assert apply(model, CONSTANT_SHAPES) == ""


def test_what_is_left_beside_a_size_that_may_be_zero_stays():
    model = parse(
        f"""g (float[B, S, 6] x, int64[1] n) => (float[A, C, 3] y) {CONSTANTS} {{
            {SIZES} shape = Concat<axis = 0>(b, n, three) y = Reshape(x, shape)
        }}"""
    )
    assert apply(model, CONSTANT_SHAPES) == ""
