import numpy as np
import onnx_ir as ir

from graph_passes import apply, feeds_of, listing, run, same
from onnxgen.graph.optimizer.passes.packed_projections import PACKED_PROJECTIONS
from onnxgen.graph.shapes import infer_shapes

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
WEIGHTS = "<float[3, 4] q, float[3, 4] k, float[3, 5] v, float[4] a, float[4] b, float[5] c>"


def model(
    body: str, outputs: str = "float[N, S, 4] x, float[N, S, 4] y, float[N, S, 5] z", weights: str = WEIGHTS
) -> ir.Model:
    rng = np.random.default_rng()
    shapes = {"q": (3, 4), "k": (3, 4), "v": (3, 5), "a": 4, "b": 4, "c": 5}
    tensors = [
        ir.tensor(rng.standard_normal(shape).astype(np.float32), name=name)
        for name, shape in shapes.items()
        if f"] {name}" in weights
    ]
    made = ir.from_onnx_text(f"{HEADER} g (float[N, S, 3] h) => ({outputs}) {weights} {{ {body} }}", tensors)
    infer_shapes(made)
    return made


def check(body: str, expected: list[str] | None, **options: str) -> None:
    made = model(body, **options)
    before_lines = listing(made)
    feeds = feeds_of(made, np.random.default_rng())
    before = run(made, feeds)
    did = apply(made, PACKED_PROJECTIONS)
    assert bool(did) == (expected is not None)
    assert listing(made) == (before_lines if expected is None else expected)
    same(before, run(made, feeds), 1e-5)


def test_with_biases():
    check(
        """p = MatMul(h, q) x = Add(p, a) r = MatMul(h, k) y = Add(b, r) s = MatMul(h, v) z = Add(s, c)""",
        [
            "t0 = MatMul(h, float[3,13])",
            "t1 = Add(t0, float[13])",
            "x, y, z = Split(t1, [4, 4, 5]) {axis=-1}",
        ],
    )


def test_without_biases():
    check(
        "early = Neg(h) x = MatMul(h, q) y = MatMul(h, k) z = MatMul(h, v)",
        ["t0 = Neg(h)", "t1 = MatMul(h, float[3,13])", "x, y, z = Split(t1, [4, 4, 5]) {axis=-1}"],
        weights="<float[3, 4] q, float[3, 4] k, float[3, 5] v>",
    )


def test_biases_of_some_stay_outside():
    made = model(
        "p = MatMul(h, q) x = Add(p, a) y = MatMul(h, k) z = MatMul(h, v)",
        weights="<float[3, 4] q, float[3, 4] k, float[3, 5] v, float[4] a>",
    )
    apply(made, PACKED_PROJECTIONS)
    assert [node.op_type for node in made.graph] == ["MatMul", "Split", "Add"]


def test_two_stay_two():
    check(
        "x = MatMul(h, q) y = MatMul(h, k)",
        None,
        outputs="float[N, S, 4] x, float[N, S, 4] y",
        weights="<float[3, 4] q, float[3, 4] k>",
    )


def test_a_weight_that_something_else_uses_stays():
    check(
        "x = MatMul(h, q) y = MatMul(h, k) z = MatMul(h, v) w = Neg(v)",
        None,
        outputs="float[N, S, 4] x, float[N, S, 4] y, float[N, S, 5] z, float[3, 5] w",
        weights="<float[3, 4] q, float[3, 4] k, float[3, 5] v>",
    )


def test_other_inputs_stay():
    check(
        "x = MatMul(h, q) n = Neg(h) y = MatMul(n, k) z = MatMul(h, v)",
        None,
        weights="<float[3, 4] q, float[3, 4] k, float[3, 5] v>",
    )
