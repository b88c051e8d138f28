import numpy as np
import onnx_ir as ir
import pytest

from graph_passes import apply, check_integrity, feeds_of, listing, parse, run, same
from onnxgen.graph.optimizer.passes.dead_code import DEAD_CODE
from onnxgen.graph.optimizer.passes.rotary import ROTARY
from onnxgen.graph.shapes import infer_shapes

CONSTANTS = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
    int64[1] max = {9223372036854775807}, int64[2] halves = {2, 2}, int64[1] last = {-1}"""
SLICES = "l = Slice(x, zero, two, three) h = Slice(x, two, max, last)"
SPLIT = "l, h = Split<axis = -1>(x, halves)"
EMBED = "n = Neg(h) r = Concat<axis = -1>(n, l) a = Mul(x, c4) b = Mul(r, s4) y = Add(a, b)"
ANGLES = """e = Concat<axis = -1>(f, f) c0 = Cos(e) c = Mul(c0, scale) s0 = Sin(e) s = Mul(s0, scale)
    c4 = Unsqueeze(c, one) s4 = Unsqueeze(s, one)"""
TABLES = "c = Gather(cosines, p) s = Gather(sines, p) c4 = Unsqueeze(c, one) s4 = Unsqueeze(s, one)"


def with_angles(parts: str = SLICES, angles: str = ANGLES, embed: str = EMBED) -> str:
    return f"""g (float[B, 3, S, 4] x, float[B, S, 2] f) => (float[B, 3, S, 4] y) {CONSTANTS}, float scale = {{1.5}}> {{
        {parts} {angles} {embed}
    }}"""


def with_tables(opset: int, tables: dict[str, np.ndarray]) -> ir.Model:
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g (float[B, 3, S, 4] x, int64[B, S] p) => (float[B, 3, S, 4] y)
    {CONSTANTS}, float[9, 4] cosines, float[9, 4] sines> {{ {SLICES} {TABLES} {EMBED} }}"""
    model = ir.from_onnx_text(text, [ir.tensor(array, name=name) for name, array in tables.items()])
    infer_shapes(model)
    return model


def repeated(rng: np.random.Generator) -> np.ndarray:
    return np.tile(rng.standard_normal((9, 2)), 2).astype(np.float32)


@pytest.mark.parametrize("parts", [SLICES, SPLIT])
def test_computed_angles(parts):
    model = parse(with_angles(parts), 23)
    feeds = feeds_of(model, np.random.default_rng())
    before = run(model, feeds)
    assert apply(model, ROTARY) == "1 rotary embeddings fused"
    apply(model, DEAD_CODE)
    check_integrity(model)
    assert [node.op_type for node in model.graph] == ["Cos", "Mul", "Sin", "Mul", "RotaryEmbedding"]
    same(before, run(model, feeds), 1e-6)


@pytest.mark.parametrize("opset", [21, 23])
def test_tables_and_positions(opset):
    rng = np.random.default_rng()
    model = with_tables(opset, {"cosines": repeated(rng), "sines": repeated(rng)})
    feeds = feeds_of(model, rng)
    before = run(model, feeds)
    apply(model, ROTARY)
    inputs = "p, float[9,2], float[9,2]" if opset == 21 else "float[9,2], float[9,2], p"
    assert listing(model) == [f"y = RotaryEmbedding(x, {inputs})"]
    same(before, run(model, feeds), 1e-6)


def test_tables_whose_halves_differ_stay():
    rng = np.random.default_rng()
    model = with_tables(
        21, {"cosines": repeated(rng), "sines": rng.standard_normal((9, 4)).astype(np.float32)}
    )
    assert apply(model, ROTARY) == ""


@pytest.mark.parametrize(
    "text",
    [
        with_angles(angles=ANGLES.replace("(f, f)", "(f, g)").replace("e =", "g = Neg(f) e =")),
        with_angles("l = Slice(x, zero, one, three) h = Slice(x, one, max, last)"),
        with_angles("l = Slice(x, two, max, three) h = Slice(x, zero, two, last)"),
        with_angles(embed=EMBED.replace("(n, l)", "(l, n)")),
        with_angles(
            embed=EMBED.replace("Mul(x, c4)", "Mul(x, s4)")
            .replace("Mul(r, s4)", "Mul(l, s4)")
            .replace("Mul(l, s4)", "Mul(r, x)")
        ),
        with_angles(
            angles=ANGLES.replace("Unsqueeze(c, one)", "Unsqueeze(c, two)").replace(
                "Unsqueeze(s, one)", "Unsqueeze(s, two)"
            )
        ),
    ],
)
def test_what_only_looks_alike_stays(text):
    assert apply(parse(text, 23), ROTARY) == ""


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("batch", ["B", "1"])
def test_angles_as_tables_of_their_own(opset, batch):
    """Before opset 23 the operator wants tables and positions; one row of angles may be for all sequences."""
    model = parse(
        with_angles("l = Slice(x, zero, two, three) h = Slice(x, two, max, last)").replace(
            "float[B, S, 2] f", f"float[{batch}, S, 2] f"
        ),
        opset,
    )
    feeds = feeds_of(model, np.random.default_rng())
    before = run(model, feeds)
    assert apply(model, ROTARY) == "1 rotary embeddings fused"
    check_integrity(model)
    same(before, run(model, feeds), 1e-6)
    assert [node.domain for node in model.graph if node.op_type == "RotaryEmbedding"] == [
        "" if opset == 23 else "com.microsoft"
    ]


def test_without_a_provider_it_stays():
    assert apply(parse(with_angles(), 23), ROTARY, lambda node: node.op_type != "RotaryEmbedding") == ""
