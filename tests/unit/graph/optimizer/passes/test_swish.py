import pytest

from graph_passes import apply, check, listing, parse
from onnxgen.graph.optimizer.passes.swish import SWISH


@pytest.mark.parametrize("form", ["Mul(x, s)", "Mul(s, x)"])
def test_silu(form):
    check(
        f"g (float[N] x) => (float[N] y) {{ s = Sigmoid(x) y = {form} }}",
        SWISH,
        ["y = QuickGelu(x) {alpha=1}"],
    )


def test_quick_gelu():
    check(
        "g (float[N] x) => (float[N] y) <float a = {1.702}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }",
        SWISH,
        ["y = QuickGelu(x) {alpha=1.702}"],
    )


def test_swish_of_the_standard():
    check(
        "g (float[N] x) => (float[N] y) { s = Sigmoid(x) y = Mul(x, s) }",
        SWISH,
        ["y = Swish(x) {alpha=1}"],
        opset=24,
    )


def test_hard_swish():
    check(
        "g (float[N] x) => (float[N] y) { s = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, s) }",
        SWISH,
        ["y = HardSwish(x)"],
    )


def test_a_gate_goes_along_where_somebody_runs_it():
    text = """g (float[N, 3] x) => (float[N, 3] y) <float[3, 3] v = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
        g = MatMul(x, v) u = MatMul(x, w) s = Sigmoid(g) a = Mul(g, s) y = Mul(a, u)
    }"""
    model = parse(text)
    apply(model, SWISH)
    assert listing(model)[-1] == "y = SwiGLU(t0, t1) {activation_alpha=1}"
    model = parse(text, opset=28)
    apply(model, SWISH)
    assert listing(model)[-1] == "y = SwiGLU(t0, t1) {alpha=1}"
    check(
        text,
        SWISH,
        [
            "t0 = MatMul(x, float[3,3])",
            "t1 = MatMul(x, float[3,3])",
            "t2 = QuickGelu(t0) {alpha=1}",
            "y = Mul(t2, t1)",
        ],
        can_run=lambda node: node.op_type != "SwiGLU",
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N] x, float[N] z) => (float[N] y) { s = Sigmoid(z) y = Mul(x, s) }",
        "g (float[N] x) => (float[N] y, float[N] s) { s = Sigmoid(x) y = Mul(x, s) }",
        "g (float[N] x) => (float[A, N] y) <float[1, 1] a = {2}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }",
        "g (float[N] x) => (float[N] y) <float[2] a = {2, 3}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }",
        "g (float[N] x) => (float[N] y) { s = HardSigmoid(x) y = Mul(x, s) }",
    ],
)
def test_what_only_looks_alike_stays(text):
    check(text, SWISH, None, sizes={"N": 2})


def test_a_double_that_is_no_float_is_no_attribute():
    text = "g (double[N] x) => (double[N] y) <double a = {%s}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }"
    assert apply(parse(text % 1.702), SWISH) == ""
    assert apply(parse(text % 1.5), SWISH) == "1 swishes fused"
