import numpy as np
import onnx_ir as ir
import pytest

from graph_passes import apply, feeds_of, listing, run, same
from onnxgen.graph.optimizer.passes.conv_weights import CONV_WEIGHTS
from onnxgen.graph.shapes import infer_shapes


def convolution(after: str, bias: bool, *, opset: int = 21, outputs: str = "float[N, 6, 5, 6] y") -> ir.Model:
    """A convolution of 4 to 6 channels, and what follows it on ``c``."""
    rng = np.random.default_rng()
    tensors = {
        "w": rng.standard_normal((6, 2, 3, 2)),
        "b": rng.standard_normal(6),
        "scale": rng.standard_normal(6),
        "shift": rng.standard_normal(6),
        "mean": rng.standard_normal(6),
        "variance": rng.random(6) + 0.1,
        "by_channel": rng.standard_normal((6, 1, 1)),
        "by_column": rng.standard_normal(6),
        "one": rng.standard_normal(()),
        "widening": rng.standard_normal((1, 1, 6, 1, 1)),
    }
    used = {
        name: array.astype(np.float32)
        for name, array in tensors.items()
        if (bias if name == "b" else name == "w" or name in after)
    }
    declared = ", ".join(
        f"float[{', '.join(map(str, a.shape))}] {n}" if a.shape else f"float {n}" for n, a in used.items()
    )
    inputs = "x, w, b" if bias else "x, w"
    return ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[N, 4, 5, 7] x) => ({outputs}) <{declared}> {{
            c = Conv<group = 2, pads = [1, 0, 1, 0]>({inputs})
            {after}
        }}""",
        initializers=[ir.tensor(array, name=name) for name, array in used.items()],
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "after",
    [
        "y = BatchNormalization<epsilon = 0.01>(c, scale, shift, mean, variance)",
        "y = Mul(c, by_channel)",
        "y = Add(by_channel, c)",
        "y = Mul(one, c)",
        "y = Add(c, one)",
    ],
)
def test_what_follows_moves_into_the_weights(after, bias):
    model = convolution(after, bias)
    infer_shapes(model)
    feeds = feeds_of(model, np.random.default_rng())
    before = run(model, feeds)
    assert "folded into Conv" in apply(model, CONV_WEIGHTS)
    (line,) = listing(model)
    assert line.startswith("y = Conv(x, float[6,2,3,2], ") and "group=2" in line
    same(before, run(model, feeds), 1e-5)


@pytest.mark.parametrize(
    ("after", "outputs"),
    [
        ("y = Mul(c, by_column)", "float[N, 6, 5, 6] y"),
        ("y = Mul(c, widening)", "float[N, 6, 5, 6] y"),
        ("y = Mul(c, c)", "float[N, 6, 5, 6] y"),
        ("y = Add(c, one)", "float[N, 6, 5, 6] y, float[N, 6, 5, 6] c"),
        ("d = Neg(c) e = Add(c, one) y = Mul(d, e)", "float[N, 6, 5, 6] y"),
        (
            "y, m, v = BatchNormalization<training_mode = 1>(c, scale, shift, mean, variance)",
            "float[N, 6, 5, 6] y, float[6] m, float[6] v",
        ),
    ],
)
def test_what_is_no_scale_of_channels_stays(after, outputs):
    assert apply(convolution(after, True, outputs=outputs), CONV_WEIGHTS) == ""


def test_old_batch_normalization_without_a_word_trains():
    after = "y = BatchNormalization(c, scale, shift, mean, variance)"
    assert apply(convolution(after, True, opset=6), CONV_WEIGHTS) == ""
    assert apply(convolution(after, True, opset=9), CONV_WEIGHTS)


def test_a_variance_of_zero_is_left_as_it_is():
    model = convolution("y = BatchNormalization<epsilon = 0.0>(c, scale, shift, mean, variance)", True)
    model.graph.initializers["variance"].const_value = ir.tensor(np.zeros(6, np.float32))
    assert apply(model, CONV_WEIGHTS) == ""
