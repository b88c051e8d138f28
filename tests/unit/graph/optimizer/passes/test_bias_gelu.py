import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.bias_gelu import BIAS_GELU


@pytest.mark.parametrize("form", ["Add(x, b)", "Add(b, x)"])
@pytest.mark.parametrize(("attributes", "fused"), [("", "BiasGelu"), ('<approximate = "tanh">', "FastGelu")])
def test_a_bias_goes_into_the_activation(form, attributes, fused):
    check(
        f"g (float[N, 3] x) => (float[N, 3] y) <float[3] b = {{1, 2, 3}}> {{ s = {form} y = Gelu {attributes} (s) }}",
        BIAS_GELU,
        [f"y = {fused}(x, [1.0, 2.0, 3.0])"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N, 3] x, float[N, 3] b) => (float[N, 3] y) { s = Add(x, b) y = Gelu(s) }",
        "g (float[N, 1] x) => (float[N, 3] y) <float[3] b = {1, 2, 3}> { s = Add(x, b) y = Gelu(s) }",
        "g (float[N, 3] x) => (float[N, 3] y, float[N, 3] s) <float[3] b = {1, 2, 3}> { s = Add(x, b) y = Gelu(s) }",
        "g (float[3] x) => (float[3] y) <float[3] b = {1, 2, 3}> { s = Add(x, b) y = Gelu(s) }",
    ],
)
def test_other_sums_stay(text):
    check(text, BIAS_GELU, None)
