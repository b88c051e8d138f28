import numpy as np
import onnx_ir as ir
import pytest

from graph_passes import anything_runs, apply, check_integrity, feeds_of, listing, parse, run, same
from onnxgen.graph.optimizer.passes.attention import ATTENTION
from onnxgen.graph.optimizer.pipeline import CLEAN_UP

CONSTANTS = """<int64[4] split = {0, 0, 2, 4}, int64[3] merge = {0, 0, 8}, float eight = {2}, float half = {0.5}, float quarter = {0.7},
    float lowest = {-3.4028235e38}, float some = {-10000.0}>"""
SPLIT = """
    q0 = Reshape(x, split) q = Transpose<perm = [0, 2, 1, 3]>(q0)
    v0 = Reshape(z, split) v = Transpose<perm = [0, 2, 1, 3]>(v0)
    k0 = Reshape(u, split) k = Transpose<perm = [0, 2, 3, 1]>(k0)"""
MERGE = "o = Transpose<perm = [0, 2, 1, 3]>(a) y = Reshape(o, merge)"
INPUTS = "float[B, S, 8] x, float[B, T, 8] u, float[B, T, 8] z"


def text(middle: str, inputs: str = "", split: str = SPLIT, merge: str = MERGE, outputs: str = "") -> str:
    return f"""g ({INPUTS}{inputs}) => (float[B, S, 8] y{outputs}) {CONSTANTS} {{
        {split} {middle} {merge}
    }}"""


def fused(source: str, opset: int = 21, can_run=anything_runs, feeds=None, runs: bool = True) -> list[str]:
    model = parse(source, opset)
    inputs = {**feeds_of(model, np.random.default_rng()), **(feeds or {})}
    before = run(model, inputs) if runs else []
    apply(model, [ATTENTION], can_run)
    while apply(model, CLEAN_UP):
        pass
    check_integrity(model)
    if runs:
        same(before, run(model, inputs), 2e-6)
    return listing(model)


def test_bert():
    middle = "s = MatMul(q, k) t = Div(s, eight) p = Softmax<axis = -1>(t) a = MatMul(p, v)"
    assert fused(text(middle)) == ["y = MultiHeadAttention(x, u, z) {num_heads=2, scale=0.5}"]


def test_with_a_mask_for_every_head():
    middle = "s = MatMul(q, k) t = Div(s, eight) m = Add(t, bias) p = Softmax<axis = -1>(m) a = MatMul(p, v)"
    lines = fused(text(middle, ", float[B, 1, S, T] bias"))
    assert lines == ["y = MultiHeadAttention(x, u, z, _, _, bias) {num_heads=2, scale=0.5}"]


def test_a_mask_of_keys_is_spread_over_the_queries():
    middle = "s = MatMul(q, k) t = Mul(half, s) m = Add(bias, t) p = Softmax<axis = 3>(m) a = MatMul(p, v)"
    lines = fused(text(middle, ", float[B, 1, 1, T] bias"))
    spread = lines[-2].split(" = ")[0]
    assert lines[-2].startswith(f"{spread} = Expand(bias, ")
    assert lines[-1] == f"y = MultiHeadAttention(x, u, z, _, _, {spread}) {{num_heads=2, scale=0.5}}"


def test_before_shapes_could_be_told_axis_by_axis():
    middle = "s = MatMul(q, k) t = Mul(half, s) m = Add(bias, t) p = Softmax<axis = 3>(m) a = MatMul(p, v)"
    lines = fused(text(middle, ", float[B, 1, 1, T] bias"), opset=13)
    assert "Expand(bias, " in lines[-2]
    assert lines[-1].startswith("y = MultiHeadAttention(x, u, z, _, _, ")


def test_a_mask_without_batch_and_heads():
    middle = "s = MatMul(q, k) m = Add(bias, s) p = Softmax<axis = -1>(m) a = MatMul(p, v)"
    lines = fused(text(middle, ", float[S, T] bias"))
    assert lines == [
        "t0 = Unsqueeze(bias, [0, 1])",
        "y = MultiHeadAttention(x, u, z, _, _, t0) {num_heads=2, scale=1}",
    ]


def test_scaled_before_the_product():
    middle = """qs = Mul(q, half) ks = Mul(k, quarter) s = MatMul(qs, ks) p = Softmax<axis = -1>(s) a = MatMul(p, v)"""
    assert fused(text(middle)) == ["y = MultiHeadAttention(x, u, z) {num_heads=2, scale=0.35}"]


@pytest.mark.parametrize("form", ["Where(seen, s, lowest)", "Where(hidden, lowest, s)"])
def test_scores_replaced_where_they_do_not_count(form):
    extra = "" if "seen" in form else " hidden = Not(seen)"
    middle = f"s = MatMul(q, k){extra} m = {form} p = Softmax<axis = -1>(m) a = MatMul(p, v)"
    lines = fused(
        text(middle, ", bool[1, 1, S, T] seen"),
        feeds=None,
    )
    assert lines[-1].startswith("y = MultiHeadAttention(x, u, z, _, _, t")
    assert any(" = Where(" in line for line in lines)


def test_both_masks():
    middle = """s = MatMul(q, k) w = Where(seen, s, lowest) m = Add(w, bias)
        p = Softmax<axis = -1>(m) a = MatMul(p, v)"""
    lines = fused(text(middle, ", bool[1, 1, S, T] seen, float[B, 1, 1, T] bias"))
    assert lines[-1].startswith("y = MultiHeadAttention(x, u, z, _, _, t")


def test_keys_and_values_of_a_cache_have_their_heads_already():
    split = """
    q0 = Reshape(x, split) q = Transpose<perm = [0, 2, 1, 3]>(q0)
    k0 = Reshape(u, split) k1 = Transpose<perm = [0, 2, 1, 3]>(k0)
    v0 = Reshape(z, split) v1 = Transpose<perm = [0, 2, 1, 3]>(v0)
    present_k = Concat<axis = 2>(past_k, k1)
    v = Concat<axis = 2>(past_v, v1)
    k = Transpose<perm = [0, 1, 3, 2]>(present_k)"""
    middle = "s = MatMul(q, k) t = Mul(s, half) p = Softmax<axis = -1>(t) a = MatMul(p, v)"
    lines = fused(
        text(
            middle,
            ", float[B, 2, P, 4] past_k, float[B, 2, P, 4] past_v",
            split,
            outputs=", float[B, 2, R, 4] present_k",
        )
    )
    assert lines[-1].startswith("y = MultiHeadAttention(x, present_k, t")


def test_heads_merged_with_the_batch():
    source = """g (float[BH, S, 4] q, float[BH, T, 4] u, float[BH, T, 4] v) => (float[BH, S, 4] y) {
        k = Transpose<perm = [0, 2, 1]>(u) s = MatMul(q, k) p = Softmax<axis = -1>(s) y = MatMul(p, v)
    }"""
    assert fused(source) == ["y = MultiHeadAttention(q, u, v) {num_heads=1, scale=1}"]
    assert fused(source, opset=23) == ["y = Attention(q, u, v) {kv_num_heads=1, q_num_heads=1, scale=1}"]


def test_the_standard_has_it_from_opset_23_on():
    middle = "s = MatMul(q, k) t = Mul(s, half) m = Add(t, bias) p = Softmax<axis = -1>(m) a = MatMul(p, v)"
    lines = fused(text(middle, ", float[B, 1, S, T] bias"), opset=23)
    assert [line.split(" = ")[1].split("(")[0] for line in lines[-3:]] == [
        "Attention",
        "Transpose",
        "Reshape",
    ]
    assert lines[-3].endswith(", bias) {scale=0.5}")


SCORES = "s = MatMul(q, k) p = Softmax<axis = -1>(s) a = MatMul(p, v)"


@pytest.mark.parametrize(
    "source",
    [
        text(SCORES.replace("axis = -1", "axis = 2")),
        text(SCORES, outputs=", float[B, 2, S, T] p"),
        text(
            "s = MatMul(q, k) t = Add(s, bias) p = Softmax<axis = -1>(t) a = MatMul(p, v)",
            ", float[C, 2, S, T] bias",
        ),
        text(
            "s = MatMul(q, k) t = Where(seen, s, some) p = Softmax<axis = -1>(t) a = MatMul(p, v)",
            ", bool[S, T] seen",
        ),
        text("s = MatMul(q, k) t = Mul(s, w) p = Softmax<axis = -1>(t) a = MatMul(p, v)", ", float w"),
        text(
            SCORES.replace("p =", "e = Neg(s) r =").replace("(p, v)", "(r, v) j = Add(e, e)"),
            outputs=", float[B, 2, S, T] j",
        ),
        text(SCORES.replace("MatMul(q, k)", "MatMul(q, kk)"), ", float[B, 2, 4, T] kk"),
    ],
)
def test_what_only_looks_alike_stays(source):
    model = parse(source)
    assert apply(model, ATTENTION) == ""


def test_negative_scales_have_no_root():
    model = parse(
        text("s = MatMul(q, k) t = Mul(s, c) p = Softmax<axis = -1>(t) a = MatMul(p, v)").replace(
            "float half", "float c = {-1}, float half"
        )
    )
    assert apply(model, ATTENTION) == ""


def test_without_a_provider_it_stays():
    model = parse(text(SCORES))
    assert apply(model, ATTENTION, lambda node: node.op_type != "MultiHeadAttention") == ""
    assert isinstance(model, ir.Model)
