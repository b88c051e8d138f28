import pytest

from graph_passes import check, only
from onnxgen.graph.optimizer.passes.gelu import GELU

CONSTANTS = """<float half = {0.5}, float one = {1}, float two = {2}, float root = {1.4142135}, float inverse = {0.70710677}, float three = {3},
    float c = {0.044715}, float k = {0.7978846}>"""
ERF = ["d = Div(x, root) e = Erf(d)", "d = Mul(x, inverse) e = Erf(d)"]
TANH = [
    "p = Pow(x, three) q = Mul(p, c) r = Add(x, q) d = Mul(r, k) e = Tanh(d)",
    "o = Mul(x, x) p = Mul(x, o) q = Mul(c, p) r = Add(q, x) d = Mul(k, r) e = Tanh(d)",
    "o = Mul(x, k) p = Mul(x, c) q = Mul(p, x) r = Add(q, one) d = Mul(o, r) e = Tanh(d)",
]
AROUND = [
    "a = Add(e, one) b = Mul(x, a) y = Mul(b, half)",
    "a = Add(one, e) h = Mul(half, x) y = Mul(h, a)",
    "a = Add(e, one) b = Mul(a, half) y = Mul(x, b)",
    "a = Add(e, one) b = Mul(x, a) y = Div(b, two)",
]


def text(curve: str, around: str = AROUND[0]) -> str:
    return f"g (float[N, M] x) => (float[N, M] y) {CONSTANTS} {{ {curve} {around} }}"


@pytest.mark.parametrize("curve", ERF)
@pytest.mark.parametrize("around", AROUND)
def test_with_erf(curve, around):
    check(text(curve, around), GELU, ["y = Gelu(x)"])


@pytest.mark.parametrize("curve", TANH)
@pytest.mark.parametrize("around", AROUND)
def test_with_tanh(curve, around):
    check(text(curve, around), GELU, ["y = Gelu(x) {approximate=tanh}"])


@pytest.mark.parametrize(("curve", "fused"), [(ERF[0], "Gelu"), (TANH[0], "FastGelu")])
def test_contrib_operators_before_opset_20(curve, fused):
    check(text(curve), GELU, [f"y = {fused}(x)"], opset=17, can_run=only(fused))


@pytest.mark.parametrize(
    "changed",
    [
        text(ERF[0]).replace("root = {1.4142135}", "root = {1.5}"),
        text(ERF[0]).replace("one = {1}", "one = {2}"),
        text(ERF[0], "a = Add(e, one) b = Mul(x, a) h = Mul(b, half) y = Mul(h, e)"),
        text(ERF[0], "z = Neg(x) a = Add(e, one) b = Mul(z, a) y = Mul(b, half)"),
        text(ERF[0]).replace("(float[N, M] y)", "(float[N, M] y, float[N, M] e)"),
        text(TANH[0]).replace("c = {0.044715}", "c = {0.0447}"),
        text(ERF[0])
        .replace("float half = {0.5}", "float[3, 1, 1] half = {0.5, 0.5, 0.5}")
        .replace("(float[N, M] y)", "(float[3, N, M] y)"),
    ],
)
def test_what_only_looks_alike_stays(changed):
    check(changed, GELU, None)


def test_without_a_provider_it_stays():
    check(text(ERF[0]), GELU, None, can_run=lambda node: node.op_type != "Gelu")
