import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.gemm import GEMM


@pytest.mark.parametrize("form", ["Add (p, c)", "Add (c, p)"])
@pytest.mark.parametrize("shape", ["float[4]", "float", "float[1, 4]", "float[1]"])
def test_a_bias_goes_into_the_product(shape, form):
    check(
        f"g (float[N, 3] a, float[3, 4] b, {shape} c) => (float[N, 4] y) {{ p = MatMul(a, b) y = {form} }}",
        GEMM,
        ["y = Gemm(a, b, c)"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "(float[2, N, 3] a, float[3, 4] b, float[4] c) => (float[2, N, 4] y) { p = MatMul(a, b) y = Add(p, c) }",
        "(float[N, 3] a, float[3, 4] b, float[2, 1, 4] c) => (float[2, N, 4] y) { p = MatMul(a, b) y = Add(p, c) }",
        "(float[1, 3] a, float[3, 1] b, float[2, 4] c) => (float[2, 4] y) { p = MatMul(a, b) y = Add(p, c) }",
        "(float[N, 3] a, float[3, M] b, float[M] c) => (float[N, M] y) { p = MatMul(a, b) y = Add(p, c) }",
        "(int32[N, 3] a, int32[3, 4] b, int32[4] c) => (int32[N, 4] y) { p = MatMul(a, b) y = Add(p, c) }",
        "(float[N, 3] a, float[3, 4] b, float[4] c) => (float[N, 4] y, float[N, 4] p) { p = MatMul(a, b) y = Add(p, c) }",
        """(float[N, 3] a, float[3, 4] b, float[4] c) => (float[N, 4] y)
            { p = MatMul(a, b) q = Add(p, c) y = Mul(p, q) }""",
    ],
)
def test_other_sums_stay(text):
    check(f"g {text}", GEMM, None)


def test_without_a_provider_for_gemm_it_stays():
    check(
        "g (float[N, 3] a, float[3, 4] b, float[4] c) => (float[N, 4] y) { p = MatMul(a, b) y = Add(p, c) }",
        GEMM,
        None,
        can_run=lambda node: node.op_type != "Gemm",
    )
