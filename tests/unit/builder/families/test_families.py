"""Configurations, old and new, to decoder specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkpoints import CHECKPOINTS
from memory_source import MemorySource
from onnxgen.builder.families import decoder_spec, known_architectures
from onnxgen.builder.spec import Activation, DecoderSpec, LayerSpec, RopeKind
from onnxgen.errors import CheckpointError

_GEMMA = {
    "architectures": ["Gemma3ForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "max_position_embeddings": 1024,
    "sliding_window": 512,
}


def _spec(config: dict[str, Any]) -> DecoderSpec:
    return decoder_spec(MemorySource(config, {}, path=Path("checkpoint")))


def _changed(name: str, **changes: Any) -> DecoderSpec:
    return _spec({**CHECKPOINTS[name].config, **changes})


def test_all_families_are_known() -> None:
    assert known_architectures() == (
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "LlamaForCausalLM",
        "MiMoForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
    )


@pytest.mark.parametrize("value", [None, [], "LlamaForCausalLM"])
def test_a_configuration_without_architectures_is_refused(value: Any) -> None:
    with pytest.raises(CheckpointError, match="names no architecture"):
        _changed("llama", architectures=value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 65}, "hidden_size 65 does not divide by num_attention_heads 4"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 does not divide by num_key_value_heads 3"),
        ({"head_dim": 15}, "head_dim 15 is odd"),
        ({"vocab_size": None}, "has no 'vocab_size'"),
        ({"vocab_size": "many"}, "'vocab_size' is 'many', expected a whole number"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers' is 0"),
        ({"hidden_act": "relu2"}, "activation 'relu2'"),
        ({"tie_word_embeddings": "yes"}, "'tie_word_embeddings' is 'yes', expected true or false"),
        ({"rope_scaling": {"rope_type": "mrope"}}, "rope type 'mrope' is not supported"),
        ({"rope_scaling": {"rope_type": "yarm", "factor": 2}}, "did you mean 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling: the configuration has no 'factor'"),
        (
            {"rope_scaling": {"rope_type": "linear", "factor": -1}},
            "'factor' is -1, expected a number above zero",
        ),
        ({"rope_scaling": 3}, "'rope_scaling' is 3, expected an object"),
    ],
)
def test_wrong_configurations_say_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        _changed("llama", **changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("num_hidden_layers", 10**12, "at most 10000"),
        ("vocab_size", 2**31, "at most 2147483647"),
        ("rope_theta", float("inf"), "a number above zero"),
        ("rms_norm_eps", float("nan"), "a number above zero"),
        ("hidden_act", ["silu"], "is not supported"),
    ],
)
def test_values_beyond_sense_are_refused_at_once(key: str, value: Any, expected: str) -> None:
    with pytest.raises(CheckpointError, match=key) as caught:
        _changed("llama", **{key: value})
    assert expected in str(caught.value)


def test_an_explicit_head_dim_frees_the_hidden_size() -> None:
    spec = _changed("llama", hidden_size=66, head_dim=16)
    assert (spec.hidden, spec.head_dim, spec.query_width) == (66, 16, 64)


def test_old_and_new_rope_parameters_mean_the_same() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 16}
    old = _changed("llama", rope_theta=500.0, rope_scaling=scaling)
    config = {key: value for key, value in CHECKPOINTS["llama"].config.items() if key != "rope_theta"}
    new = _spec({**config, "rope_parameters": {**scaling, "rope_theta": 500.0}})
    assert old.ropes == new.ropes
    assert old.ropes[0].yarn is not None and old.ropes[0].yarn.beta_fast == 16
    assert old.ropes[0].magnitude == pytest.approx(1.1386294361)


def test_a_null_scaling_is_none() -> None:
    assert _changed("llama", rope_scaling=None).ropes[0].kind is RopeKind.DEFAULT


def test_mistral_windows_are_null_absent_or_given() -> None:
    config = {key: value for key, value in CHECKPOINTS["mistral"].config.items() if key != "sliding_window"}
    assert {layer.window for layer in _spec(config).layers} == {4096}
    assert {layer.window for layer in _spec({**config, "sliding_window": None}).layers} == {None}
    assert {layer.window for layer in _spec({**config, "sliding_window": 7}).layers} == {7}


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_qwen_windows_only_where_switched_on(name: str) -> None:
    base = {"num_hidden_layers": 3, "sliding_window": 9, "max_window_layers": 2, "layer_types": None}

    def windows(**changes: Any) -> list[int | None]:
        return [layer.window for layer in _changed(name, **base | changes).layers]

    assert windows(use_sliding_window=False) == [None, None, None]
    assert windows(use_sliding_window=True) == [None, None, 9]
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    assert windows(use_sliding_window=True, layer_types=types) == [9, None, 9]
    with pytest.raises(CheckpointError, match="'layer_types' has 1 entries, expected 3"):
        windows(use_sliding_window=True, layer_types=["full_attention"])
    with pytest.raises(CheckpointError, match="layer 0 has type 'chunked_attention'"):
        windows(use_sliding_window=True, layer_types=["chunked_attention"] * 3)


def test_qwen_biases_and_norms() -> None:
    two, three = _changed("qwen2"), _changed("qwen3")
    assert (two.attention.qkv_bias, two.attention.output_bias, two.attention.qk_norm) == (True, False, False)
    assert (three.attention.qkv_bias, three.attention.output_bias, three.attention.qk_norm) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize("kind", ["longrope", "su", "yarn"])
def test_phi3_knows_longrope_by_its_old_names(kind: str) -> None:
    config = CHECKPOINTS["phi3-longrope"].config
    spec = _spec({**config, "rope_scaling": {**config["rope_scaling"], "type": kind}})
    assert spec.ropes[0].kind is RopeKind.LONGROPE
    assert spec.rope_switch_length == config["original_max_position_embeddings"]


def test_longrope_factors_must_fit_the_rotated_dimensions() -> None:
    config = CHECKPOINTS["phi3-longrope"].config
    with pytest.raises(CheckpointError, match="'short_factor' has 1 numbers, expected 8"):
        _spec({**config, "rope_scaling": {**config["rope_scaling"], "short_factor": [1.0]}})


def test_gemma_layers_follow_the_pattern_or_the_types() -> None:
    spec = _spec(_GEMMA)
    local, full = LayerSpec(rope=1, window=512), LayerSpec(rope=0)
    assert spec.layers == (local, local, local, local, local, full, local, local)
    types = ["full_attention", "sliding_attention"] * 4
    assert _spec({**_GEMMA, "layer_types": types}).layers == (full, local) * 4
    assert (spec.ropes[0].theta, spec.ropes[1].theta) == (1e6, 1e4)
    assert spec.embedding_scale == pytest.approx(640**0.5)
    assert spec.norm.weight_offset == 1 and spec.mlp.activation is Activation.GELU_TANH


def test_gemma_scaling_applies_to_the_global_rope_only() -> None:
    spec = _spec({**_GEMMA, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})
    assert [rope.factor for rope in spec.ropes] == [8.0, 1.0]
    nested = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    assert _spec({**_GEMMA, "rope_parameters": nested}).ropes == spec.ropes


def test_gemma_inside_a_multimodal_configuration() -> None:
    text = {key: value for key, value in _GEMMA.items() if key != "architectures"}
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": text,
        "tie_word_embeddings": True,
    }
    spec = _spec(config)
    assert spec.hidden == 640 and spec.tied is True and spec.model_type == "gemma3_text"


def test_bidirectional_gemma_is_refused() -> None:
    with pytest.raises(CheckpointError, match="use_bidirectional_attention"):
        _spec({**_GEMMA, "use_bidirectional_attention": True})


def test_rope_parameters_by_layer_type_must_agree_where_layers_do_not_differ() -> None:
    same = {"rope_type": "default", "rope_theta": 300.0}
    config = {key: value for key, value in CHECKPOINTS["llama"].config.items() if key != "rope_theta"}
    spec = _spec({**config, "rope_parameters": {"full_attention": same, "sliding_attention": same}})
    assert spec.ropes[0].theta == 300.0
    other = {"full_attention": same, "sliding_attention": {**same, "rope_theta": 5.0}}
    with pytest.raises(CheckpointError, match="differs by layer type"):
        _spec({**config, "rope_parameters": other})
