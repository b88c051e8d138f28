import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.rms_norm import RMS_NORM

CONSTANTS = """<int64[1] last = {-1}, int64[1] middle = {1}, float e = {0.000001}, float p = {2}, float half = {-0.5}, float one = {1},
    float[4] g = {1, 2, 3, 4}>"""
SQUARE = {"Pow": "s = Pow(x, p)", "Mul": "s = Mul(x, x)"}
SCALE = {
    "Div": "t = Sqrt(a) n = Div(x, t)",
    "Reciprocal": "t = Sqrt(a) r = Reciprocal(t) n = Mul(x, r)",
    "one over": "t = Sqrt(a) r = Div(one, t) n = Mul(r, x)",
    "Pow": "r = Pow(a, half) n = Mul(x, r)",
}


def text(square: str = "Pow", scale: str = "Div", end: str = "y = Mul(g, n)", axis: str = "last") -> str:
    return f"""g (float[N, 3, 4] x) => (float[N, 3, 4] y) {CONSTANTS} {{
        {SQUARE[square]} m = ReduceMean(s, {axis}) a = Add(m, e) {SCALE[scale]} {end}
    }}"""


@pytest.mark.parametrize("square", SQUARE)
@pytest.mark.parametrize("scale", SCALE)
def test_the_forms_that_exporters_write(square, scale):
    check(
        text(square, scale),
        RMS_NORM,
        ["y = SimplifiedLayerNormalization(x, [1.0, 2.0, 3.0, 4.0]) {axis=-1, epsilon=1e-06}"],
    )


def test_the_standard_has_it_from_opset_23_on():
    check(
        text(),
        RMS_NORM,
        ["y = RMSNormalization(x, [1.0, 2.0, 3.0, 4.0]) {axis=-1, epsilon=1e-06}"],
        opset=23,
    )


def test_another_operator_where_nobody_runs_the_first():
    check(
        text(),
        RMS_NORM,
        ["y = SimplifiedLayerNormalization(x, [1.0, 2.0, 3.0, 4.0]) {axis=-1, epsilon=1e-06}"],
        opset=23,
        can_run=lambda node: node.op_type != "RMSNormalization",
    )


def test_half_floats_normalized_in_float():
    check(
        """g (float16[N, 4] x) => (float16[N, 4] y)
        <int64[1] last = {-1}, float e = {0.00001}, float p = {2}, float16[4] g = {15360, 16384, 16896, 17408}> {
            w = Cast<to = 1>(x) s = Pow(w, p) m = ReduceMean(s, last) a = Add(m, e) t = Sqrt(a)
            r = Reciprocal(t) n = Mul(w, r) h = Cast<to = 10>(n) y = Mul(g, h)
        }""",
        RMS_NORM,
        ["y = SimplifiedLayerNormalization(x, [1.0, 2.0, 3.0, 4.0]) {axis=-1, epsilon=1e-05}"],
        tolerance=2e-3,
    )


@pytest.mark.parametrize(
    "changed",
    [
        text(axis="middle"),
        text(end="y = Mul(n, a)"),
        text(end="k = Mul(n, g) y = Mul(k, s)"),
        text().replace("s = Pow(x, p)", "z = Neg(x) s = Pow(z, p)"),
        text()
        .replace("half = {-0.5}", "half = {-0.4}")
        .replace("t = Sqrt(a) n = Div(x, t)", "r = Pow(a, half) n = Mul(x, r)"),
        text().replace("float[", "double[").replace("float ", "double "),
    ],
)
def test_what_only_looks_alike_stays(changed):
    check(changed, RMS_NORM, None)


def test_without_a_scale_it_is_one_of_ones():
    check(
        text(end="y = Neg(n)"),
        RMS_NORM,
        [
            "t0 = SimplifiedLayerNormalization(x, [1.0, 1.0, 1.0, 1.0]) {axis=-1, epsilon=1e-06}",
            "y = Neg(t0)",
        ],
    )


def test_the_scale_stays_outside_where_others_use_what_it_scales():
    check(
        text().replace("(float[N, 3, 4] y)", "(float[N, 3, 4] y, float[N, 3, 4] n)"),
        RMS_NORM,
        [
            "n = SimplifiedLayerNormalization(x, [1.0, 1.0, 1.0, 1.0]) {axis=-1, epsilon=1e-06}",
            "y = Mul([1.0, 2.0, 3.0, 4.0], n)",
        ],
    )


def test_the_scale_stays_outside_where_it_widens_the_shape():
    check(
        text().replace("N, 3, 4] x", "N, 3, 1] x"),
        RMS_NORM,
        [
            "t0 = SimplifiedLayerNormalization(x, [1.0]) {axis=-1, epsilon=1e-06}",
            "y = Mul([1.0, 2.0, 3.0, 4.0], t0)",
        ],
    )
