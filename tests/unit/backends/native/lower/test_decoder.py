"""Decoder graphs in many styles become plans that compute the same."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from backend_runs import open_folder
from onnxgen.backends.native.lower import lower_decoder
from onnxgen.backends.native.plan import Family, RowKind
from onnxgen.errors import CapabilityError
from onnxgen.graph.loader import load_graph
from onnxgen.metadata import load_model_spec
from plan_oracle import PlanOracle
from tiny_decoders import FLOAT16, INT32, Sizes, Style, TinyDecoder, decoder_model, write_graph

SEED = secrets.randbits(32)
FIXTURES = Path(__file__).parents[4] / "fixtures"

STYLES = {
    "plain": (Sizes(), Style()),
    "wide matrix": (Sizes(), Style(packed_qkv=True, symbolic_head_dim=True)),
    "positions": (Sizes(soft_cap=4.0), Style(rotary="positions", pruned_head="gather")),
    "rotary operator": (Sizes(kv_heads=1, layers=3), Style(rotary="op", ids=INT32, hidden_states=True)),
    "float16 cache": (Sizes(), Style(cache=FLOAT16, value_info=False, logits=FLOAT16)),
    "two ropes": (Sizes(rope_switch=11), Style(pruned_head="slice")),
    "computed last position": (Sizes(), Style(pruned_head="computed", rotary="op")),
}


@pytest.fixture(autouse=True)
def _seed():
    print(f"seed {SEED}")


@pytest.mark.parametrize("name", STYLES)
def test_a_plan_computes_what_the_graph_does(name: str, tmp_path: Path):
    sizes, style = STYLES[name]
    decoder = TinyDecoder(sizes, SEED)
    model = decoder_model(decoder, style, tmp_path / "model.onnx")
    plan = lower_decoder(load_graph(model.path), model)
    oracle = PlanOracle(plan, tmp_path, switch_length=sizes.rope_switch)
    tolerance = 0.05 if style.cache == FLOAT16 else 1e-5
    for length in (1, 9, 23):
        tokens = np.random.default_rng(SEED).integers(0, 61, length).tolist()
        assert np.abs(oracle.logits(tokens) - decoder.logits(tokens)).max() < tolerance
        assert np.abs(oracle.hidden(tokens) - decoder.hidden(tokens)).max() < tolerance
    assert len(plan.caches) == sizes.layers
    assert plan.buffers[plan.logits.buffer].rows is RowKind.WANTED
    assert [c.family for c in plan.calls].count(Family.SELECT) == (1 if style.pruned_head else 2)


@pytest.mark.parametrize("name", ["og-built-llama-fp32", "og-built-llama-int4", "og-built-qwen3-int4-pruned"])
def test_folders_of_another_builder_are_understood(name: str):
    folder = FIXTURES / name
    model = load_model_spec(folder).decoder
    plan = lower_decoder(load_graph(model.path), model)
    tokens = np.random.default_rng(SEED).integers(3, model.vocab_size, 17).tolist()
    with open_folder(folder) as run:
        expected = run.greedy(tokens, 1)[1][0]
    got = PlanOracle(plan, folder).logits(tokens)[-1]
    # activations of ONNX Runtime's quantized products are rounded to 8 bits
    assert np.abs(got - expected).max() / expected.std() < (1e-4 if "fp32" in name else 0.3)


def test_everything_that_cannot_be_run_is_named(tmp_path: Path):
    model = decoder_model(TinyDecoder(Sizes(), 1), Style("plain", ids=INT32), tmp_path / "model.onnx")
    with pytest.raises(CapabilityError) as error:
        lower_decoder(load_graph(model.path), model)
    text = str(error.value)
    assert "Transpose '/Transpose" in text
    assert text.count("\n- ") == 3
    assert "MatMul '" not in text, "a node is not blamed for what its inputs cannot"


def test_inputs_that_a_step_cannot_fill_are_named(tmp_path: Path):
    model = decoder_model(TinyDecoder(Sizes(), 1), Style(extra_input=True), tmp_path / "model.onnx")
    with pytest.raises(CapabilityError, match="input 'current_weather': a step cannot fill it"):
        lower_decoder(load_graph(model.path), model)


def test_a_switch_that_the_folder_does_not_name_is_refused(tmp_path: Path):
    decoder = TinyDecoder(Sizes(rope_switch=11), 1)
    model = decoder_model(decoder, Style(), tmp_path / "model.onnx")
    with pytest.raises(CapabilityError, match="names no length"):
        lower_decoder(load_graph(model.path), dataclasses.replace(model, rope_switch_length=None))
    with pytest.raises(CapabilityError, match="do not change at 12 tokens"):
        lower_decoder(load_graph(model.path), dataclasses.replace(model, rope_switch_length=12))


def test_lengths_that_are_not_those_of_the_sequence_are_refused(tmp_path: Path):
    decoder = TinyDecoder(Sizes(), 1)
    model = decoder_model(decoder, Style(), tmp_path / "model.onnx")
    proto = write_graph(decoder, Style())
    (total,) = [n for n in proto.graph.node if n.op_type == "ReduceSum"]
    one = helper.make_tensor("two", TensorProto.INT64, [1], [2])
    proto.graph.initializer.append(one)
    (minus,) = [n for n in proto.graph.node if n.op_type == "Sub" and n.input[0] == total.output[0]]
    minus.input[1] = "two"
    save(proto, model.path)
    with pytest.raises(CapabilityError, match="seqlens_k is not the length of the sequence minus one"):
        lower_decoder(load_graph(model.path), model)
