import dataclasses
import re

import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnxgen.backends.ort.graph_edit.names import Rows
from onnxgen.backends.ort.model_file import read_content
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.backends.ort.prepare import prepare
from onnxgen.errors import CapabilityError, ModelFileError
from tiny_decoders import BFLOAT16, Sizes, Style, TinyDecoder, decoder_model, write_graph

SIZES = Sizes(layers=1)


def prepared(tmp_path, style, *, sizes=SIZES, ragged=True, plan=None, change=None, **fields):
    decoder = TinyDecoder(sizes, 1)
    model = decoder_model(decoder, style, tmp_path / "m.onnx", **fields)
    if change is not None:
        proto = write_graph(decoder, style)
        change(proto.graph)
        onnx.save(proto, tmp_path / "m.onnx")
    return prepare(model, read_content(model), ragged_attention=ragged, plan=plan)


def attention(graph):
    return next(n for n in graph.node if n.op_type == "GroupQueryAttention")


def test_mask_and_its_arithmetic_die_in_a_packed_graph(tmp_path):
    made = prepared(tmp_path, Style())
    assert (made.kind, made.rows, made.declined) == (PlanKind.PACKED, Rows.WANTED, ())
    assert made.ports.attention_mask is None
    graph = ir.from_proto(onnx.load_model_from_string(made.content)).graph
    assert "attention_mask" not in {v.name for v in graph.inputs}
    assert not {"ReduceSum", "Shape", "Sub"} & {n.op_type for n in graph}


def test_inputs_that_still_matter_are_kept(tmp_path):
    assert prepared(tmp_path, Style(rotary="op")).ports.position_ids is not None
    assert prepared(tmp_path, Style(rotary="positions")).ports.position_ids is None
    switching = prepared(tmp_path, Style(), sizes=dataclasses.replace(SIZES, rope_switch=9))
    assert switching.ports.attention_mask is not None


def test_head_size_is_found_where_the_cache_does_not_say_it(tmp_path):
    for style in (
        Style(symbolic_head_dim=True),
        Style(symbolic_head_dim=True, packed_qkv=True, value_info=False),
    ):
        assert prepared(tmp_path, style).ports.states[0].dims == (2, 16)
    with pytest.raises(ModelFileError, match=r"sizes of input 'past_key_values\.0\.key'.*cannot be told"):
        prepared(tmp_path, Style("plain", symbolic_head_dim=True))


def test_logits_of_another_vocabulary_are_refused_with_both_sizes(tmp_path):
    with pytest.raises(ModelFileError, match=r"m\.onnx gives logits 'logits' of \d+ tokens.*there are 7;"):
        prepared(tmp_path, Style(), vocab_size=7)


def without_ragged(tmp_path):
    return prepared(tmp_path, Style(), ragged=False)


def with_bias(tmp_path):
    def change(graph):
        graph.input.append(helper.make_tensor_value_info("past_key_values.9.key", 1, [1]))
        node = attention(graph)
        node.input.extend([""] * (10 - len(node.input)) + ["seqbias"])
        graph.node.insert(0, helper.make_node("Constant", [], ["seqbias"], value_float=0.0))
        del graph.input[-1]

    return prepared(tmp_path, Style(), change=change)


def with_window(tmp_path):
    def change(graph):
        attention(graph).attribute.append(helper.make_attribute("sliding_window_cache", 1))

    return prepared(tmp_path, Style(), change=change)


def with_mixing(tmp_path):
    def change(graph):
        node = next(n for n in graph.node if n.op_type == "Sigmoid")
        node.op_type = "CumSum"
        node.input.append("const1")

    return prepared(tmp_path, Style(), change=change)


def with_unnamed_switch(tmp_path):
    sizes = dataclasses.replace(SIZES, rope_switch=9)
    return prepared(tmp_path, Style(), sizes=sizes, rope_switch_length=None)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (without_ragged, "CPU provider alone"),
        (with_bias, "has an attention bias"),
        (with_window, "keeps a window of its cache only"),
        (with_mixing, "CumSum is not known to treat tokens one by one"),
        (with_unnamed_switch, "names no length where rotary tables change"),
    ],
)
def test_what_cannot_be_proved_right_is_not_packed(tmp_path, make, reason):
    made = make(tmp_path)
    assert made.kind is PlanKind.BATCHED
    assert len(made.declined) == 1
    assert re.search(f"packed: .*{reason}", made.declined[0])


def test_graphs_without_grouped_attention_are_dense(tmp_path):
    made = prepared(tmp_path, Style("plain"))
    assert made.kind is PlanKind.DENSE
    assert not made.one_by_one
    assert prepared(tmp_path, Style(), plan=PlanKind.DENSE).one_by_one


def test_last_logits_alone_do_not_go_with_a_switch_of_rotary_tables(tmp_path):
    sizes = dataclasses.replace(SIZES, rope_switch=9)
    with pytest.raises(CapabilityError, match="last position only and changes its rotary tables at 9"):
        prepared(tmp_path, Style(pruned_head="computed"), sizes=sizes)


def test_bfloat16_caches_are_float32_outside(tmp_path):
    made = prepared(tmp_path, Style("plain", cache=BFLOAT16))
    assert {s.dtype for s in made.ports.states} == {"float32"}


def test_a_plan_that_does_not_fit_is_refused_with_its_reason(tmp_path):
    with pytest.raises(CapabilityError, match="packed plan: it has no GroupQueryAttention"):
        prepared(tmp_path, Style("plain"), plan=PlanKind.PACKED)
    with pytest.raises(CapabilityError, match=r"batched plan: past_conv\.0 is not a cache"):
        prepared(tmp_path, Style(), sizes=dataclasses.replace(SIZES, conv_layers=(0,)), plan=PlanKind.BATCHED)


def test_inputs_that_nobody_can_fill_are_named(tmp_path):
    found = prepared(tmp_path, Style(extra_input=True))
    assert [(port.name, port.dtype, port.dims) for port in found.ports.required] == [
        ("current_weather", "float32", (None,))
    ]
    assert found.kind is PlanKind.BATCHED, "packed tokens have another layout"


def test_missing_inputs_and_outputs_are_named_with_those_there_are(tmp_path):
    with pytest.raises(ModelFileError, match="no input 'tokens'; its inputs are attention_mask, input_ids"):
        prepared(tmp_path, Style(), inputs={"input_ids": "tokens"})
    with pytest.raises(ModelFileError, match="no output 'scores'; its outputs are logits"):
        prepared(tmp_path, Style(), outputs={"logits": "scores"})
    with pytest.raises(ModelFileError, match=r"no output 'present\.x\.0'"):
        prepared(tmp_path, Style(), outputs={"present_key_names": "present.x.%d"})
