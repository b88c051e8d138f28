"""Emitted graphs, run by ONNX Runtime, against a float64 decoder written from the definitions."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
import onnx
import pytest

from folder_runner import FolderRunner
from memory_source import MemorySource, random_source
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.quantize import dequantize_blocks, quantize_blocks
from reference_decoder import reference_logits

_SIZES = {
    "vocab_size": 67,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
    "eos_token_id": 1,
}
FAMILIES = {
    "llama": {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
    "llama-bias": {
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": False,
        "attention_bias": True,
        "mlp_bias": True,
    },
    "llama-rotated-before": {"architectures": ["LlamaForCausalLM"], "head_dim": 8},
    "mistral": {"architectures": ["MistralForCausalLM"], "sliding_window": 4},
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
    },
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True},
    "phi3": {
        "architectures": ["Phi3ForCausalLM"],
        "head_dim": None,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "sliding_window": None,
    },
    "phi3-partial": {
        "architectures": ["Phi3ForCausalLM"],
        "head_dim": None,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "partial_rotary_factor": 0.75,
        "sliding_window": 6,
    },
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        "sliding_window_pattern": 3,
        "sliding_window": 4,
        "rope_local_base_freq": 50.0,
        "query_pre_attn_scalar": 20,
        "final_logit_softcapping": 3.0,
        "attn_logit_softcapping": 2.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    },
}


def family_config(name: str) -> dict:
    kind = name.partition("-")[0]
    model_type = {"gemma3": "gemma3_text"}.get(kind, kind)
    return {"model_type": model_type, **_SIZES, **FAMILIES[name]}


def _spread_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.ptp(expected))


@pytest.fixture
def seed() -> int:
    value = secrets.randbits(32)
    print(f"seed {value}")
    return value


@pytest.mark.parametrize("name", FAMILIES)
def test_float32_logits_equal_the_reference_at_once_in_chunks_and_token_by_token(
    name: str, tmp_path: Path, seed: int
) -> None:
    config = family_config(name)
    source = random_source(config, tmp_path / "source", seed)
    build(source, tmp_path / "model", options=BuildOptions(precision="fp32"))
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], 19).tolist()
    expected = reference_logits(config, source.tensors, ids)
    runner = FolderRunner(tmp_path / "model")
    assert _spread_error(runner(ids), expected) < 1e-5
    runner.reset()
    chunked = [runner(ids[:7]), runner(ids[7:12]), runner(ids[12:])]
    assert _spread_error(np.concatenate(chunked), expected) < 1e-5
    runner.reset()
    assert _spread_error(np.concatenate([runner([id_]) for id_ in ids]), expected) < 1e-5


@pytest.mark.parametrize(
    ("name", "precision", "symmetric", "head_bits"),
    [
        *((name, "int4", True, 8) for name in FAMILIES),
        ("llama-bias", "int4", False, 8),
        ("llama-bias", "int4", False, 4),
        ("gemma3", "int4", True, 4),
        ("qwen3", "int8", True, 8),
        ("phi3", "int8", False, 4),
    ],
)
def test_quantized_logits_equal_the_reference_on_the_dequantized_weights(
    name: str, precision: str, symmetric: bool, head_bits: int, tmp_path: Path, seed: int
) -> None:
    # Blocks of 32 do not divide 48 or 40 columns: every row ends in a padded block.
    config = family_config(name)
    source = random_source(config, tmp_path / "source", seed)
    options = BuildOptions(precision, symmetric=symmetric, accuracy_level=1, head_bits=head_bits)
    build(source, tmp_path / "model", options=options)
    bits = {"int4": 4, "int8": 8}[precision]
    weights = {}
    for tensor, value in source.tensors.items():
        weights[tensor] = value
        if value.ndim == 2:
            wide = tensor in ("lm_head.weight", "model.embed_tokens.weight")
            blocks = quantize_blocks(
                value, bits=head_bits if wide else bits, block_size=32, symmetric=symmetric
            )
            weights[tensor] = dequantize_blocks(blocks)
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], 9).tolist()
    expected = reference_logits(config, weights, ids)
    assert _spread_error(FolderRunner(tmp_path / "model")(ids), expected) < 1e-4


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
@pytest.mark.parametrize(
    ("precision", "io_dtype", "tolerance"),
    [("fp16", "float32", 5e-3), ("bf16", "float32", 5e-2), ("fp16", "float16", 3e-2)],
)
def test_sixteen_bit_logits_are_near_the_reference(
    name: str, precision: str, io_dtype: str, tolerance: float, tmp_path: Path, seed: int
) -> None:
    config = family_config(name)
    source = random_source(config, tmp_path / "source", seed)
    build(source, tmp_path / "model", options=BuildOptions(precision=precision, io_dtype=io_dtype))
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], 9).tolist()
    expected = reference_logits(config, source.tensors, ids)
    error = _spread_error(FolderRunner(tmp_path / "model")(ids), expected)
    assert 0 < error < tolerance


def test_longrope_takes_the_long_table_beyond_the_original_context(tmp_path: Path, seed: int) -> None:
    config = family_config("phi3")
    short, long = [1.0 + i / 8 for i in range(8)], [2.0 + i for i in range(8)]
    scaling = {"rope_type": "longrope", "short_factor": short, "long_factor": long, "attention_factor": 1.0}
    config |= {"original_max_position_embeddings": 8, "rope_scaling": scaling}
    source = random_source(config, tmp_path / "source", seed)
    build(source, tmp_path / "model", options=BuildOptions(precision="fp32"))
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], 9).tolist()
    runner = FolderRunner(tmp_path / "model")
    for length, factors in ((7, short), (8, short), (9, long)):
        alone = random_source(config, tmp_path / "source", seed)
        alone.config = {**config, "rope_scaling": {**scaling, "short_factor": factors}}
        target = tmp_path / f"short-{length}"
        build(alone, target, options=BuildOptions(precision="fp32", context_length=8))
        if length == 9:
            alone.config = {**alone.config, "original_max_position_embeddings": 64}
            build(alone, target, options=BuildOptions(precision="fp32"))
        runner.reset()
        expected = FolderRunner(target)(ids[:length])
        assert _spread_error(runner(ids[:length]), expected) < 1e-6


def test_blocks_of_a_checkpoint_are_carried_over_exactly(tmp_path: Path, seed: int) -> None:
    config = family_config("llama") | {"hidden_size": 64, "intermediate_size": 96}
    source = random_source(config, tmp_path / "source", seed)
    rng = np.random.default_rng(seed)
    weights = dict(source.tensors)
    for name, value in source.tensors.items():
        if value.ndim != 2:
            continue
        blocks = quantize_blocks(value, bits=4, block_size=32, symmetric=False)
        # Float zero points, as GGUF's scale and minimum make them.
        points = (7.5 + rng.standard_normal(blocks.scales.shape)).astype(np.float32)
        source.blocks[name] = type(blocks)(4, 32, blocks.in_features, blocks.codes, blocks.scales, points)
        weights[name] = dequantize_blocks(source.blocks[name])
    report = build(source, tmp_path / "model", options=BuildOptions(precision="int4"))
    assert report.float_zero_points == sum(report.formats.values()) == 1 + 5 * 3
    assert not set(source.blocks) & set(source.loaded)
    ids = rng.integers(0, config["vocab_size"], 9).tolist()
    assert _spread_error(FolderRunner(tmp_path / "model")(ids), reference_logits(config, weights, ids)) < 1e-5


def test_projections_whose_formats_differ_are_multiplied_apart(tmp_path: Path, seed: int) -> None:
    config = family_config("llama") | {"attention_bias": True}
    source = random_source(config, tmp_path / "source", seed)
    value = "model.layers.1.self_attn.v_proj.weight"
    source.blocks[value] = quantize_blocks(source.tensors[value], bits=8, block_size=16, symmetric=True)
    build(source, tmp_path / "model", options=BuildOptions(precision="int4", accuracy_level=1))
    names = {
        node.name
        for node in onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False).graph.node
    }
    assert "/model/layers.0/attn/qkv_proj/MatMulNBits" in names
    assert {f"/model/layers.1/attn/{part}_proj/MatMulNBits" for part in "qkv"} <= names
    weights = {
        name: dequantize_blocks(
            source.blocks.get(name)
            or quantize_blocks(array, bits=8 if "embed" in name else 4, block_size=32, symmetric=True)
        )
        if array.ndim == 2
        else array
        for name, array in source.tensors.items()
    }
    ids = list(range(9))
    assert _spread_error(FolderRunner(tmp_path / "model")(ids), reference_logits(config, weights, ids)) < 1e-4


def test_blocks_that_cannot_be_carried_become_8_bits_unless_all_are_quantized_again(
    tmp_path: Path, seed: int
) -> None:
    source = random_source(family_config("llama"), tmp_path / "source", seed)
    down = "model.layers.0.mlp.down_proj.weight"
    source.stored_types[down] = "Q5_K"
    kept = build(source, tmp_path / "kept", options=BuildOptions())
    again = build(source, tmp_path / "again", options=BuildOptions(requantize=True))
    assert kept.formats["int8 block 32 symmetric"] == again.formats["int8 block 32 symmetric"] + 1


def test_a_sequence_in_a_batch_has_the_logits_it_has_alone(tmp_path: Path, seed: int) -> None:
    config = family_config("qwen3")
    build(
        random_source(config, tmp_path / "s", seed),
        tmp_path / "model",
        options=BuildOptions(precision="fp32"),
    )
    runner = FolderRunner(tmp_path / "model")
    first, second = [5, 6, 7, 8], [9, 10]
    alone = [runner(first)]
    runner.reset()
    alone.append(runner(second))
    shape = (2, config["num_key_value_heads"], 0, config["head_dim"])
    past = {
        f"past_key_values.{i}.{part}": np.zeros(shape, np.float32)
        for i in range(3)
        for part in ("key", "value")
    }
    feeds = {
        "input_ids": np.array([first, [*second, 0, 0]]),
        "attention_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
    }
    logits = runner.session.run(["logits"], feeds | past)[0]
    np.testing.assert_allclose(logits[0], alone[0], atol=1e-5)
    np.testing.assert_allclose(logits[1, :2], alone[1], atol=1e-5)


def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path: Path, seed: int) -> None:
    source = random_source(family_config("llama"), tmp_path / "source", seed)
    whole = source.tensors.pop("model.layers.2.mlp.up_proj.weight")
    with pytest.raises(ValueError, match=r"model\.layers\.2\.mlp\.up_proj\.weight' is missing"):
        build(source, tmp_path / "model")
    source.tensors["model.layers.2.mlp.up_proj.weight"] = whole[:, :-1]
    with pytest.raises(ValueError, match=r"shape \[40, 47\].*\[40, 48\]"):
        build(source, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_values_that_float16_cannot_hold_are_refused(tmp_path: Path, seed: int) -> None:
    source = random_source(family_config("llama"), tmp_path / "source", seed)
    source.tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = 1e5
    with pytest.raises(ValueError, match=r"up_proj.*float16 cannot hold.*100000"):
        build(source, tmp_path / "model", options=BuildOptions(precision="fp16"))
    build(source, tmp_path / "model", options=BuildOptions(precision="bf16"))


def test_each_tensor_is_read_once(tmp_path: Path, seed: int) -> None:
    config = family_config("qwen2") | {"tie_word_embeddings": False}
    source: MemorySource = random_source(config, tmp_path / "source", seed)
    build(source, tmp_path / "model", options=BuildOptions(precision="fp32"))
    assert sorted(source.loaded) == sorted(source.names)
