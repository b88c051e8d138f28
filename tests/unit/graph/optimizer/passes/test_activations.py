import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.activations import ACTIVATIONS

C = "<float low = {-0.5}, float high = {0.5}, int64[1] axes = {0}>"


@pytest.mark.parametrize(
    ("activation", "attributes"),
    [
        ("Relu(c)", "activation=Relu"),
        ("Sigmoid(c)", "activation=Sigmoid"),
        ("Tanh(c)", "activation=Tanh"),
        ("LeakyRelu<alpha = 0.25>(c)", "activation=LeakyRelu, activation_params=[0.25]"),
        ("HardSigmoid<alpha = 0.25>(c)", "activation=HardSigmoid, activation_params=[0.25, 0.5]"),
        ("Clip(c, low, high)", "activation=Clip, activation_params=[-0.5, 0.5]"),
    ],
)
def test_after_a_convolution(activation, attributes):
    check(
        f"""g (float[N, 2, 5, 5] x, float[4, 1, 3, 3] w) => (float[N, 4, 5, 5] y) {C} {{
            c = Conv<group = 2, pads = [1, 1, 1, 1]>(x, w)
            y = {activation}
        }}""",
        ACTIVATIONS,
        [f"y = FusedConv(x, w) {{{attributes}, group=2, pads=[1, 1, 1, 1]}}"],
    )


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh"])
def test_after_a_gemm(activation):
    check(
        f"""g (float[3, N] a, float[3, 4] b, float[4] c) => (float[N, 4] y) {{
            p = Gemm<alpha = 0.5, transA = 1>(a, b, c)
            y = {activation}(p)
        }}""",
        ACTIVATIONS,
        [f"y = FusedGemm(a, b, c) {{activation={activation}, alpha=0.5, transA=1}}"],
    )


def test_after_a_product_of_matrices():
    check(
        "g (float[N, 3] a, float[3, 4] b) => (float[N, 4] y) { p = MatMul(a, b) y = LeakyRelu<alpha = 0.5>(p) }",
        ACTIVATIONS,
        ["y = FusedGemm(a, b) {activation=LeakyRelu, activation_alpha=0.5}"],
    )


@pytest.mark.parametrize(
    "text",
    [
        f"(float[N, 2, 5] x, float[4, 2, 3] w) => (float[N, 4, 3] y, float[N, 4, 3] c) {C} {{ c = Conv(x, w) y = Relu(c) }}",
        f"(float[N, 2, 5] x, float[4, 2, 3] w) => (float[N, 4, 3] y) {C} {{ c = Conv(x, w) y = Clip(c, low) }}",
        f"(float[N, 2, 5] x, float[4, 2, 3] w, float m) => (float[N, 4, 3] y) {C} {{ c = Conv(x, w) y = Clip(c, low, m) }}",
        f"(float[N, 2, 5] x, float[4, 2, 3] w) => (float[N, 4, 3] y) {C} {{ c = Conv(x, w) y = Softplus(c) }}",
        "(double[N, 3] a, double[3, 4] b, double[4] c) => (double[N, 4] y) { p = Gemm(a, b, c) y = Relu(p) }",
        "(float[2, N, 3] a, float[3, 4] b) => (float[2, N, 4] y) { p = MatMul(a, b) y = Relu(p) }",
    ],
)
def test_others_stay(text):
    check(f"g {text}", ACTIVATIONS, None)
