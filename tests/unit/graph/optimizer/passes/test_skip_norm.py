import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.skip_norm import SKIP_NORM

G = "<float[4] g = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}, float[1, 1, 4] h = {1, 2, 3, 4}>"
IO = "g (float[N, S, 4] x, float[N, S, 4] z) => (float[N, S, 4] y"
GAMMA, BETA = "[1.0, 2.0, 3.0, 4.0]", "[5.0, 6.0, 7.0, 8.0]"


def test_the_sum_nobody_else_needs():
    check(
        f"{IO}) {G} {{ s = Add(x, z) y = LayerNormalization<epsilon = 0.001>(s, g, b) }}",
        SKIP_NORM,
        [f"y = SkipLayerNormalization(x, z, {GAMMA}, {BETA}) {{epsilon=0.001}}"],
    )


def test_the_sum_that_goes_on():
    check(
        f"{IO}) {G} {{ s = Add(x, z) early = Neg(s) n = LayerNormalization(s, g, b) y = Mul(n, early) }}",
        SKIP_NORM,
        [
            f"t0, _, _, t1 = SkipLayerNormalization(x, z, {GAMMA}, {BETA}) {{epsilon=1e-05}}",
            "t2 = Neg(t1)",
            "y = Mul(t0, t2)",
        ],
    )


def test_the_sum_that_is_an_output():
    check(
        f"{IO}, float[N, S, 4] s) {G} {{ s = Add(x, z) y = SimplifiedLayerNormalization(s, g) }}",
        SKIP_NORM,
        [f"y, _, _, s = SkipSimplifiedLayerNormalization(x, z, {GAMMA}) {{epsilon=1e-05}}"],
    )


def test_the_standards_rms_normalization():
    check(
        f"{IO}) {G} {{ s = Add(x, z) y = RMSNormalization<axis = 2>(s, g) }}",
        SKIP_NORM,
        [f"y = SkipSimplifiedLayerNormalization(x, z, {GAMMA}) {{epsilon=1e-05}}"],
        opset=23,
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{IO}) {G} {{ s = Add(x, g) y = LayerNormalization(s, g, b) }}",
        f"{IO}) {G} {{ s = Sub(x, z) y = LayerNormalization(s, g, b) }}",
        f"{IO}) {G} {{ s = Add(x, z) y = LayerNormalization(s, h, b) }}",
        f"{IO}) {G} {{ s = Add(x, z) c = ReduceMax<keepdims = 0>(s) d = Mul(c, g) y = LayerNormalization(s, d, b) }}",
        f"{IO}, float[N, S, 1] m) {G} {{ s = Add(x, z) y, m = LayerNormalization(s, g, b) }}",
        "g (float[4, 4] x, float[4, 4] z) => (float[4, 4] y) <float[4, 4] g> { s = Add(x, z) y = Neg(s) }".replace(
            "<float[4, 4] g>", ""
        ),
    ],
)
def test_what_the_operator_cannot_say_stays(text):
    check(text, SKIP_NORM, None)
