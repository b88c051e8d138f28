from __future__ import annotations

import numpy as np
import pytest

from gguf_by_hand import Typed, floats, tiny_decoder, write_gguf
from onnxgen.builder.gguf.config_map import ARCHITECTURES, read_config
from onnxgen.builder.gguf.reader import read_gguf
from onnxgen.errors import CheckpointError, UnsupportedArchitectureError


@pytest.fixture
def config(tmp_path):
    """The configuration of a tiny decoder after changes to its metadata and tensors (None removes)."""

    def read(architecture, changes=None, tensors=None, **sizes):
        metadata, weights = tiny_decoder(architecture, np.random.default_rng(0), **sizes)
        metadata |= {key.replace("ARCH", architecture): value for key, value in (changes or {}).items()}
        weights |= tensors or {}
        path = write_gguf(
            tmp_path / "a.gguf",
            {key: value for key, value in metadata.items() if value is not None},
            {name: value for name, value in weights.items() if value is not None},
        )
        return read_config(read_gguf(path))

    return read


@pytest.mark.parametrize(
    ("architecture", "name", "model_type"),
    [
        ("llama", "LlamaForCausalLM", "llama"),
        ("qwen2", "Qwen2ForCausalLM", "qwen2"),
        ("qwen3", "Qwen3ForCausalLM", "qwen3"),
        ("phi3", "Phi3ForCausalLM", "phi3"),
        ("gemma3", "Gemma3ForCausalLM", "gemma3_text"),
    ],
)
def test_sizes_of_every_architecture(config, architecture, name, model_type):
    read = config(architecture)
    assert read["architectures"] == [name] and read["model_type"] == model_type
    expected = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 128,
        "vocab_size": 50,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": None,
    }
    assert expected.items() <= read.items()
    assert read["hidden_activation" if architecture == "gemma3" else "hidden_act"] == (
        "gelu_pytorch_tanh" if architecture == "gemma3" else "silu"
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_families_take_every_architecture(tmp_path, architecture):
    from onnxgen.builder.families import decoder_spec
    from onnxgen.builder.sources import open_source

    path = write_gguf(tmp_path / "a.gguf", *tiny_decoder(architecture, np.random.default_rng(0)))
    spec = decoder_spec(open_source(path))
    assert (spec.hidden, spec.heads, spec.kv_heads, spec.head_dim, spec.vocab) == (64, 4, 2, 16, 50)


def test_a_head_of_its_own_unties_the_embedding(config):
    assert (
        config("llama", tensors={"output.weight": floats(np.ones((50, 64)))})["tie_word_embeddings"] is False
    )


def test_key_length_is_the_head_size(config):
    read = config("qwen3", {"ARCH.attention.key_length": 32, "ARCH.attention.value_length": 32})
    assert read["head_dim"] == 32
    with pytest.raises(CheckpointError, match=r"key_length 32 and attention\.value_length 16 differ"):
        config("qwen3", {"ARCH.attention.key_length": 32, "ARCH.attention.value_length": 16})


def test_missing_kv_heads_mean_as_many_as_heads(config):
    assert config("llama", {"ARCH.attention.head_count_kv": None})["num_key_value_heads"] == 4


def test_the_same_value_for_every_layer_is_one_value(config):
    assert config("llama", {"ARCH.feed_forward_length": [96, 96]})["intermediate_size"] == 96
    with pytest.raises(CheckpointError, match=r"llama\.feed_forward_length.*differ by layer"):
        config("llama", {"ARCH.feed_forward_length": [96, 64]})


@pytest.mark.parametrize(
    "key",
    [
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ],
)
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_a_missing_key_is_named(config, architecture, key):
    with pytest.raises(CheckpointError, match=f"metadata key '{architecture}.{key}' is missing"):
        config(architecture, {f"ARCH.{key}": None})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("block_count", "many", "'llama.block_count' is 'many', expected a whole number"),
        ("block_count", True, "'llama.block_count' is True, expected a whole number"),
        ("block_count", 2.5, "'llama.block_count' is 2.5, expected a whole number"),
        ("block_count", Typed(5, -1), "'llama.block_count' is -1, expected a whole number"),
        ("rope.freq_base", "big", "'llama.rope.freq_base' is 'big', expected a number"),
        ("rope.freq_base", float("nan"), "'llama.rope.freq_base' is nan, expected a finite number"),
        ("rope.scaling.type", 3, "'llama.rope.scaling.type' is 3, expected a string"),
        ("attention.head_count", 0, "attention.head_count' is 0, expected a whole number above 0"),
        ("attention.head_count", 100, "100 heads do not fit an embedding_length of 64"),
        ("block_count", 4_000_000_000, "block_count is 4000000000, but there are only 11 tensors"),
        (
            "embedding_length",
            32,
            r"token_embd.weight' has shape \[50, 64\], expected rows of embedding_length 32",
        ),
        ("rope.freq_base", 0.0, "freq_base is 0.0, must be above 0"),
        ("feed_forward_length", ["a", "b"], "is \\['a', 'b'\\], expected a whole number"),
    ],
)
def test_a_key_of_the_wrong_kind_is_named(config, key, value, message):
    with pytest.raises(CheckpointError, match=message):
        config("llama", {f"ARCH.{key}": value})


def test_an_unknown_architecture_is_named_with_the_known_ones(config, tmp_path):
    path = write_gguf(tmp_path / "b.gguf", {"general.architecture": "qwen4"})
    with pytest.raises(
        UnsupportedArchitectureError,
        match=r"'qwen4' is not supported; did you mean 'qwen.*known: llama, qwen2",
    ):
        read_config(read_gguf(path))
    path = write_gguf(tmp_path / "b.gguf", {"general.type": "model"})
    with pytest.raises(CheckpointError, match=r"'general.architecture' is missing"):
        read_config(read_gguf(path))


def test_experts_are_refused(config):
    with pytest.raises(UnsupportedArchitectureError, match="mixture of 8 experts"):
        config("llama", {"ARCH.expert_count": 8})
    assert config("llama", {"ARCH.expert_count": 0})["model_type"] == "llama"


def test_a_file_without_an_embedding_is_refused(config):
    with pytest.raises(CheckpointError, match=r"'token_embd.weight' is missing"):
        config("llama", tensors={"token_embd.weight": None})


def test_the_end_of_a_turn_ends_generation_too(config):
    keys = {"tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.eom_token_id": 2}
    assert config("llama", keys)["eos_token_id"] == [2, 7]
    assert config("llama", {"tokenizer.ggml.eos_token_id": None})["eos_token_id"] is None
    with pytest.raises(CheckpointError, match=r"'tokenizer\.ggml\.bos_token_id' is '<s>', expected a whole"):
        config("llama", {"tokenizer.ggml.bos_token_id": "<s>"})


def test_a_llama_with_a_window_is_a_mistral(config):
    read = config("llama", {"ARCH.attention.sliding_window": 4096})
    assert read["architectures"] == ["MistralForCausalLM"] and read["sliding_window"] == 4096


def test_biases_of_a_llama_are_seen(config):
    assert config("llama")["attention_bias"] is False
    assert config("llama", tensors={"blk.0.attn_q.bias": floats(np.ones(64))})["attention_bias"] is True


@pytest.mark.parametrize(("window", "expected"), [(None, None), (0, None), (2047, 2047)])
def test_phi3_windows(config, window, expected):
    assert config("phi3", {"ARCH.attention.sliding_window": window})["sliding_window"] == expected


def test_gemma3_alternates_windows_and_bases(config):
    read = config("gemma3", layers=13)
    full = [index for index, kind in enumerate(read["layer_types"]) if kind == "full_attention"]
    assert full == [5, 11] and len(read["layer_types"]) == 13
    assert read["sliding_window"] == 16
    assert read["rope_local_base_freq"] == 10000.0
    assert read["query_pre_attn_scalar"] == read["head_dim"] == 16


def test_gemma3_says_otherwise_when_the_file_does(config):
    read = config(
        "gemma3",
        {
            "ARCH.attention.sliding_window_pattern": 2,
            "ARCH.rope.freq_base_swa": 5000.0,
            "ARCH.final_logit_softcapping": 30.0,
            "ARCH.attention.scale": 0.125,
        },
        layers=4,
    )
    assert [kind[0] for kind in read["layer_types"]] == ["s", "f", "s", "f"]
    assert read["rope_local_base_freq"] == 5000.0 and read["final_logit_softcapping"] == 30.0
    assert read["query_pre_attn_scalar"] == 64
    pattern = {"ARCH.attention.sliding_window_pattern": [False, True, True]}
    assert [kind[0] for kind in config("gemma3", pattern, layers=3)["layer_types"]] == ["f", "s", "s"]
    with pytest.raises(CheckpointError, match="sliding_window_pattern has 3 values for 2 layers"):
        config("gemma3", pattern, layers=2)


def test_the_deep_gemma3_scales_by_width(config):
    read = config("gemma3", {"ARCH.attention.key_length": 4}, layers=62, hidden=32, intermediate=32)
    assert read["query_pre_attn_scalar"] == 8 and read["head_dim"] == 4
