"""Each rewrite computes the same and does what it is there for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from native_plans import check_same, families, tiny_plan
from onnxgen.backends.native.fuse import fuse_plan
from onnxgen.backends.native.fuse.attention_rows import share_attention_rows
from onnxgen.backends.native.fuse.functions import fuse_functions
from onnxgen.backends.native.fuse.head_widths import pad_heads, padded_width
from onnxgen.backends.native.fuse.heads import fuse_heads
from onnxgen.backends.native.fuse.joined import join_products
from onnxgen.backends.native.fuse.quantized import quantize_activations
from onnxgen.backends.native.fuse.residuals import fuse_residuals
from onnxgen.backends.native.fuse.sums import fuse_sums
from onnxgen.backends.native.fuse.tied import share_tied_tables
from onnxgen.backends.native.fuse.wanted import select_early
from onnxgen.backends.native.lower import lower_decoder
from onnxgen.backends.native.plan import Elements, Family, RowKind, StepPlan
from onnxgen.graph.loader import load_graph
from onnxgen.metadata import load_model_spec
from tiny_decoders import Sizes, Style

FIXTURES = Path(__file__).parents[4] / "fixtures"


def fixture_plan(name: str) -> tuple[StepPlan, Path]:
    model = load_model_spec(FIXTURES / name).decoder
    return lower_decoder(load_graph(model.path), model), FIXTURES / name


def test_functions_become_one_call(tmp_path: Path):
    plan = tiny_plan(tmp_path, Sizes(soft_cap=4.0))
    fused = fuse_functions(plan)
    check_same(plan, fused, tmp_path)
    assert [c.text("function") for c in fused.calls if c.family is Family.MAP] == ["softcap"]
    assert families(fused).count(Family.GATE) == 2
    assert Family.MULTIPLY not in families(fused)


def test_a_cap_that_is_not_undone_is_no_soft_cap(tmp_path: Path):
    plan = tiny_plan(tmp_path, Sizes(soft_cap=4.0))
    # behind it, the wanted rows of hidden states and logits are selected
    last = dataclasses.replace(plan.calls[-3], parameters={"function": "scale", "amount": 3.0})
    assert last.family is Family.MAP
    odd = dataclasses.replace(plan, calls=(*plan.calls[:-3], last, *plan.calls[-2:]))
    fused = fuse_functions(odd)
    check_same(odd, fused, tmp_path)
    assert "softcap" not in [c.parameters.get("function") for c in fused.calls]


def test_a_function_that_somebody_else_reads_stays(tmp_path: Path):
    plan = tiny_plan(tmp_path)
    sigmoid = next(c for c in plan.calls if c.family is Family.MAP)
    reading = dataclasses.replace(plan, hidden_states=sigmoid.writes["y"])  # the step gives the sigmoids out
    fused = fuse_functions(reading)
    check_same(reading, fused, tmp_path)
    assert "sigmoid" in [c.parameters.get("function") for c in fused.calls]


def test_residual_sums_move_into_norms(tmp_path: Path):
    plan = tiny_plan(tmp_path)
    fused = fuse_sums(plan)
    check_same(plan, fused, tmp_path)
    assert Family.ADD in families(plan)
    assert Family.ADD not in families(fused)


def test_rotations_become_part_of_attention(tmp_path: Path):
    plan = tiny_plan(tmp_path, style=Style(rotary="op"))
    fused = fuse_heads(plan)
    check_same(plan, fused, tmp_path)
    assert families(plan).count(Family.ROTATE) == 4
    assert Family.ROTATE not in families(fused)


def test_head_norms_become_part_of_attention():
    plan, folder = fixture_plan("og-built-qwen3-int4-pruned")
    fused = fuse_heads(plan)
    check_same(plan, fused, folder)
    assert all("query_norm" in c.weights for c in fused.calls if c.family is Family.ATTEND)
    assert families(plan).count(Family.NORM) - families(fused).count(Family.NORM) == 4


@pytest.mark.parametrize("style", [Style(), Style(pruned_head="gather"), Style(hidden_states=True)])
def test_only_wanted_rows_are_computed_behind_the_last_attention(tmp_path: Path, style: Style):
    plan = tiny_plan(tmp_path, style=style)
    early = select_early(plan)
    check_same(plan, early, tmp_path)
    last = max(i for i, c in enumerate(early.calls) if c.family is Family.ATTEND)
    assert all(c.rows is RowKind.WANTED for c in early.calls[last + 1 :])
    assert families(early).count(Family.SELECT) == 2, "the heads and the residual stream"


def test_attention_reads_one_row_and_products_join(tmp_path: Path):
    plan = tiny_plan(tmp_path)
    shared = share_attention_rows(plan)
    check_same(plan, shared, tmp_path)
    joined = join_products(fuse_functions(shared))
    check_same(plan, joined, tmp_path)
    assert families(plan).count(Family.PRODUCT) == 15
    assert families(joined).count(Family.PRODUCT) == 9
    gated = [c for c in joined.calls if c.family is Family.PRODUCT and c.text("epilogue")]
    assert [c.text("epilogue") for c in gated] == ["silu", "silu"]
    assert all(joined.weights[c.weights["matrix"]].interleaved for c in gated)


def test_products_add_to_the_residual_stream_in_place(tmp_path: Path):
    plan = fuse_sums(select_early(tiny_plan(tmp_path, Sizes(layers=3))))
    fused = fuse_residuals(plan)
    check_same(plan, fused, tmp_path)
    sums = [c for c in fused.calls if c.family is Family.PRODUCT and "residual" in c.reads]
    assert len(sums) == 6
    assert all(c.reads["residual"] == c.writes["y"] for c in sums)
    assert len({c.writes["y"].buffer for c in sums}) == 2, "all tokens, then the wanted ones"


def test_a_stream_that_is_read_later_is_not_added_to(tmp_path: Path):
    plan = fuse_sums(select_early(tiny_plan(tmp_path)))
    embedding = plan.calls[0].writes["y"]
    reading = dataclasses.replace(plan, hidden_states=embedding)
    fused = fuse_residuals(reading)
    check_same(reading, fused, tmp_path)


@pytest.mark.parametrize(
    ("head_dim", "padded"), [(16, 32), (24, 32), (32, 32), (40, 48), (80, 80), (100, 112)]
)
def test_heads_are_padded_where_attention_has_no_kernel(tmp_path: Path, head_dim: int, padded: int):
    assert padded_width(head_dim) == padded
    plan = tiny_plan(tmp_path, Sizes(head_dim=head_dim), Style(packed_qkv=True))
    wide = pad_heads(plan)
    check_same(plan, wide, tmp_path)
    assert {c.number("head_dim") for c in wide.calls if c.family is Family.ATTEND} == {padded}
    assert {layer.head_dim for layer in wide.caches} == {padded}
    assert (Family.PAD in families(wide)) == (head_dim != padded)


def test_integers_are_written_where_rows_are_made():
    plan, folder = fixture_plan("og-built-llama-int4")
    fused = fuse_residuals(join_products(share_attention_rows(fuse_sums(fuse_functions(select_early(plan))))))
    whole = quantize_activations(fused)
    check_same(plan, whole, folder)
    products = [c for c in whole.calls if c.family is Family.PRODUCT]
    assert {whole.buffers[c.reads["x"].buffer].elements for c in products} == {Elements.INT8}
    norms = [c for c in whole.calls if c.family is Family.NORM]
    assert all(set(c.writes) == {"q"} for c in norms[:-1]), "nobody reads their floats"
    assert norms[-1].writes["y"] == whole.hidden_states
    assert families(whole).count(Family.QUANTIZE) == 4, "heads and gates of two layers"


def test_a_tied_embedding_is_the_packed_head():
    plan, folder = fixture_plan("og-built-qwen3-int4-pruned")
    tied = share_tied_tables(plan)
    check_same(plan, tied, folder)
    head = next(c for c in reversed(tied.calls) if c.family is Family.PRODUCT)
    assert tied.calls[0].weights["table"] == head.weights["matrix"]
    assert len(tied.weights) == len(plan.weights) - 1


@pytest.mark.parametrize(
    "sizes", [Sizes(), Sizes(rope_switch=7, soft_cap=3.0), Sizes(head_dim=24, kv_heads=1)]
)
@pytest.mark.parametrize("style", [Style(), Style(rotary="op", hidden_states=True), Style(packed_qkv=True)])
def test_all_rewrites_together_compute_the_same(tmp_path: Path, sizes: Sizes, style: Style):
    plan = tiny_plan(tmp_path, sizes, style)
    fused = fuse_plan(plan)
    check_same(plan, fused, tmp_path, switch_length=sizes.rope_switch)
    assert len(fused.calls) < len(plan.calls) + 8 * sizes.layers * (
        padded_width(sizes.head_dim) != sizes.head_dim
    )
