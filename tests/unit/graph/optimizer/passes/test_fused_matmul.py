import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.fused_matmul import FUSED_MATMUL


def test_matrices_become_a_gemm():
    check(
        "g (float[3, N] a, float[3, M] b) => (float[N, M] y) { t = Transpose(a) y = MatMul(t, b) }",
        FUSED_MATMUL,
        ["y = Gemm(a, b) {transA=1}"],
    )


def test_batches_of_matrices_become_a_fused_matmul():
    check(
        "g (float[2, N, 3] a, float[2, M, 3] b) => (float[2, N, M] y) { t = Transpose<perm = [0, 2, 1]>(b) y = MatMul(a, t) }",
        FUSED_MATMUL,
        ["y = FusedMatMul(a, b) {alpha=1, transB=1}"],
    )


def test_both_transposed():
    check(
        "g (float[3, N] a, float[M, 3] b) => (float[N, M] y) { s = Transpose(a) t = Transpose(b) y = MatMul(s, t) }",
        FUSED_MATMUL,
        ["y = FusedMatMul(a, b) {alpha=1, transA=1, transB=1}"],
        can_run=lambda node: node.op_type != "Gemm",
    )


@pytest.mark.parametrize(("form", "alpha"), [("Mul(p, c)", "4"), ("Mul(c, p)", "4"), ("Div(p, c)", "0.25")])
def test_a_factor_becomes_alpha(form, alpha):
    check(
        f"g (float[2, N, 3] a, float[3, M] b) => (float[2, N, M] y) <float c = {{4}}> {{ p = MatMul(a, b) y = {form} }}",
        FUSED_MATMUL,
        [f"y = FusedMatMul(a, b) {{alpha={alpha}}}"],
    )


def test_a_factor_and_a_transpose():
    check(
        """g (float[2, N, 3] a, float[2, M, 3] b) => (float[2, N, M] y) <float c = {4}, float[1] d = {0.5}> {
            t = Transpose<perm = [0, 2, 1]>(b) p = MatMul(a, t) q = Mul(p, c) y = Mul(q, d)
        }""",
        FUSED_MATMUL,
        ["y = FusedMatMul(a, b) {alpha=2, transB=1}"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "(float[2, N, 3] a, float[3, 2, M] b) => (float[2, N, M] y) { t = Transpose<perm = [1, 0, 2]>(b) y = MatMul(a, t) }",
        "(float[3, N] a, float[3, M] b) => (float[N, M] y, float[N, 3] t) { t = Transpose(a) y = MatMul(t, b) }",
        "(int32[3, N] a, int32[3, M] b) => (int32[N, M] y) { t = Transpose(a) y = MatMul(t, b) }",
        "(float[N, 3] a, float[3, M] b, float c) => (float[N, M] y) { p = MatMul(a, b) y = Mul(p, c) }",
        "(float[N, 3] a, float[3, M] b) => (float[N, M] y) <float c = {4}> { p = MatMul(a, b) y = Div(c, p) }",
        "(float[N, 3] a, float[3, M] b) => (float[N, M] y) <float c = {0}> { p = MatMul(a, b) y = Div(p, c) }",
        "(double[N, 3] a, double[3, M] b) => (double[N, M] y) <double c = {0.1}> { p = MatMul(a, b) y = Mul(p, c) }",
        "(float[N, 3] a, float[3, M] b) => (float[1, N, M] y) <float[1, 1, 1] c = {4}> { p = MatMul(a, b) y = Mul(p, c) }",
        "(float[N, 3] a, float[3, M] b) => (float[N, M] y, float[N, M] p) <float c = {4}> { p = MatMul(a, b) y = Mul(p, c) }",
    ],
)
def test_others_stay(text):
    check(f"g {text}", FUSED_MATMUL, None)
