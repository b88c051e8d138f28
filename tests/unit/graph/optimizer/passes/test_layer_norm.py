import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.layer_norm import LAYER_NORM

CONSTANTS = """<int64[1] last = {-1}, int64[2] two = {1, 2}, int64[1] middle = {1}, float e = {0.00001}, float p = {2}, float one = {1},
    float[4] g = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}, float[3, 4] g2 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>"""
MEAN = "m = ReduceMean(x, last) d = Sub(x, m)"
SQUARE = {"Pow": "s = Pow(d, p)", "Mul": "s = Mul(d, d)"}
SCALE = {
    "Div": "n = Div(d, t)",
    "Reciprocal": "r = Reciprocal(t) n = Mul(r, d)",
    "one over": "r = Div(one, t) n = Mul(d, r)",
}
END = "k = Mul(n, g) y = Add(k, b)"


def text(
    square: str = "Pow", scale: str = "Div", end: str = END, mean: str = MEAN, last: str = "last"
) -> str:
    return f"""g (float[N, 3, 4] x) => (float[N, 3, 4] y) {CONSTANTS} {{
        {mean} {SQUARE[square]} v = ReduceMean(s, {last}) a = Add(v, e) t = Sqrt(a) {SCALE[scale]} {end}
    }}"""


@pytest.mark.parametrize("square", SQUARE)
@pytest.mark.parametrize("scale", SCALE)
@pytest.mark.parametrize("end", [END, "k = Mul(g, n) y = Add(b, k)"])
def test_the_forms_that_exporters_write(square, scale, end):
    did = check(
        text(square, scale, end),
        LAYER_NORM,
        ["y = LayerNormalization(x, [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]) {axis=-1, epsilon=1e-05}"],
    )
    assert did == "1 layer normalizations fused"


def test_without_a_shift():
    check(
        text(end="y = Mul(n, g)"),
        LAYER_NORM,
        ["y = LayerNormalization(x, [1.0, 2.0, 3.0, 4.0]) {axis=-1, epsilon=1e-05}"],
    )


def test_over_several_last_axes():
    check(
        text(mean="m = ReduceMean(x, two) d = Sub(x, m)", last="two", end="y = Mul(n, g2)"),
        LAYER_NORM,
        ["y = LayerNormalization(x, float[3,4]) {axis=-2, epsilon=1e-05}"],
    )


def test_half_floats_normalized_in_float():
    check(
        """g (float16[N, 4] x) => (float16[N, 4] y)
        <int64[1] last = {-1}, float e = {0.00001}, float p = {2}, float16[4] g = {15360, 16384, 16896, 17408}, float16[4] b = {17664, 17920, 18176, 18432}> {
            m = ReduceMean(x, last) d = Sub(x, m) w = Cast<to = 1>(d)
            s = Pow(w, p) v = ReduceMean(s, last) a = Add(v, e) t = Sqrt(a) n = Div(w, t)
            h = Cast<to = 10>(n) k = Mul(h, g) y = Add(k, b)
        }""",
        LAYER_NORM,
        ["y = LayerNormalization(x, [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]) {axis=-1, epsilon=1e-05}"],
        tolerance=1e-2,
    )


@pytest.mark.parametrize(
    "changed",
    [
        text(mean="m = ReduceMean(x, middle) d = Sub(x, m)"),
        text(mean="m = ReduceMean(x, middle) d = Sub(x, m)", last="middle"),
        text(mean="m = ReduceMean(x, last) d = Sub(m, x)"),
        text(end="k = Mul(n, t) y = Add(k, b)"),
        text(end="k = Mul(n, g) j = Add(k, b) y = Mul(j, v)"),
        text().replace("(float[N, 3, 4] y)", "(float[N, 3, 4] y, float[N, 3, 4] d)"),
        text()
        .replace("(float[N, 3, 4] x)", "(double[N, 3, 4] x)")
        .replace("float[", "double[")
        .replace("float ", "double "),
        text().replace("p = {2}", "p = {3}"),
        text().replace("N, 3, 4] x", "N, 1, 1] x"),
    ],
)
def test_what_only_looks_alike_stays(changed):
    check(changed, LAYER_NORM, None)


def test_without_a_provider_it_stays():
    check(text(), LAYER_NORM, None, can_run=lambda node: node.op_type != "LayerNormalization")
