"""Tiny random Hugging Face checkpoints for every model family and feature, made by numpy from fixed seeds.

The weights are the same on every machine and numpy version: they come from the raw stream of a PCG64 bit
generator, one stream per tensor. They are scaled so that attention is neither uniform nor one-hot and logits are
far apart: a wrong window, rotary base or norm changes the logits by far more than rounding does
(``scripts/make_goldens.py`` checks that for each entry of ``mutations``).

    folder = write_checkpoint(CHECKPOINTS["qwen3"], tmp_path)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tiny_tokenizer
from checkpoint_weights import random_tensor, stored_shapes, weight_spread
from safetensors_by_hand import from_stored, to_stored, write_sharded


@dataclass(frozen=True, slots=True)
class TinyCheckpoint:
    """One checkpoint.

    Attributes:
        name: Folder name and name of its golden file.
        config: ``config.json``.
        seed: Seed of weights and prompts.
        dtype: How the weights are stored: ``float32``, ``float16`` or ``bfloat16``.
        shards: Number of safetensors files.
        prompts: Lengths of the golden prompts.
        new_tokens: Greedy tokens after each prompt.
        mutations: Configuration changes that must change the logits, by what they prove.
    """

    name: str
    config: Mapping[str, Any]
    seed: int
    dtype: str = "float32"
    shards: int = 1
    prompts: tuple[int, ...] = (33,)
    new_tokens: int = 8
    mutations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def prompt_ids(checkpoint: TinyCheckpoint, length: int) -> list[int]:
    """The golden prompt of that length: ordinary tokens without special ids."""
    raw = np.random.PCG64(np.random.SeedSequence([checkpoint.seed, 77])).random_raw(length)
    return [3 + int(value >> np.uint64(33)) % (checkpoint.config["vocab_size"] - 3) for value in raw]


def tensors(checkpoint: TinyCheckpoint) -> dict[str, np.ndarray]:
    """All tensors as float32, rounded to what the checkpoint stores."""
    gemma = checkpoint.config["model_type"] == "gemma3_text"
    values: dict[str, np.ndarray] = {}
    shapes = stored_shapes(checkpoint.config)
    for name, shape in shapes.items():
        std, mean = weight_spread(name, shape, gemma=gemma, tied="lm_head.weight" not in shapes)
        exact = random_tensor(shape, seed=checkpoint.seed, name=name, std=std, mean=mean)
        values[name] = from_stored(to_stored(exact, checkpoint.dtype))
    return values


def digest(checkpoint: TinyCheckpoint) -> str:
    """Hash over configuration and weights; a golden file records the one it was made from."""
    total = hashlib.sha256(json.dumps(checkpoint.config, sort_keys=True).encode())
    for name, value in sorted(tensors(checkpoint).items()):
        total.update(name.encode())
        total.update(value.tobytes())
    return total.hexdigest()


def write_checkpoint(
    checkpoint: TinyCheckpoint,
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    weights: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write the checkpoint into ``folder`` and return it.

    Args:
        checkpoint: What to write.
        folder: Made if missing.
        config: Changes to ``config.json``; None as a value removes nothing, it is written as null.
        weights: Other float32 tensors instead of the random ones, stored as float32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**checkpoint.config, **(config or {})}
    (folder / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    stored = checkpoint.dtype if weights is None else "float32"
    write_sharded(folder, tensors(checkpoint) if weights is None else weights, stored, checkpoint.shards)
    generation = {"bos_token_id": tiny_tokenizer.BOS, "eos_token_id": tiny_tokenizer.EOS, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    tiny_tokenizer.write_tokenizer(folder)
    return folder


_COMMON: dict[str, Any] = {
    "vocab_size": tiny_tokenizer.VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "bos_token_id": tiny_tokenizer.BOS,
    "eos_token_id": tiny_tokenizer.EOS,
    "pad_token_id": tiny_tokenizer.PAD,
    "torch_dtype": "float32",
}


def _config(architecture: str, model_type: str, **changes: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **_COMMON, **changes}


def _llama(**changes: Any) -> dict[str, Any]:
    return _config("LlamaForCausalLM", "llama", **{"tie_word_embeddings": False, **changes})


def _qwen2(**changes: Any) -> dict[str, Any]:
    return _config(
        "Qwen2ForCausalLM",
        "qwen2",
        **{"tie_word_embeddings": True, "num_hidden_layers": 3, "rms_norm_eps": 1e-6, **changes},
    )


def _phi3(**changes: Any) -> dict[str, Any]:
    return _config(
        "Phi3ForCausalLM",
        "phi3",
        **{
            "tie_word_embeddings": False,
            "original_max_position_embeddings": 256,
            "sliding_window": None,
            "rope_scaling": None,
            **changes,
        },
    )


def _gemma3(**changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "num_hidden_layers": 7,
        "head_dim": 32,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 100000.0,
        "rope_local_base_freq": 100.0,
        "sliding_window": 5,
        "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
    }
    return _without(_config("Gemma3ForCausalLM", "gemma3_text", **{**settings, **changes}), "hidden_act")


def _without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


_SHORT_FACTORS = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
_LONG_FACTORS = [1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]
_NO_SCALING = {"rope_scaling": None}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 4}

_ALL = (
    TinyCheckpoint(
        "llama",
        _llama(tie_word_embeddings=True),
        201,
        prompts=(33, 1),
        mutations={"rope base": {"rope_theta": 500.0}, "norm epsilon": {"rms_norm_eps": 0.1}},
    ),
    TinyCheckpoint(
        "llama-untied",
        _llama(vocab_size=275, num_hidden_layers=3, intermediate_size=100, num_key_value_heads=4),
        2,
        shards=3,
    ),
    TinyCheckpoint(
        "llama-llama3",
        _llama(rope_scaling=_LLAMA3),
        3,
        mutations={
            "scaling": _NO_SCALING,
            "high frequencies": {"rope_scaling": {**_LLAMA3, "high_freq_factor": 16.0}},
        },
    ),
    TinyCheckpoint(
        "llama-linear",
        _llama(rope_scaling={"type": "linear", "factor": 4.0}),
        104,
        mutations={"scaling": _NO_SCALING},
    ),
    TinyCheckpoint(
        "llama-dynamic", _llama(rope_scaling={"type": "dynamic", "factor": 2.0}), 5, prompts=(33,)
    ),
    TinyCheckpoint(
        "llama-yarn",
        _llama(rope_scaling=_YARN, rope_theta=100.0, head_dim=32, max_position_embeddings=512),
        6,
        mutations={
            "scaling": _NO_SCALING,
            "attention factor": {"rope_scaling": {**_YARN, "attention_factor": 1.0}},
            "beta fast": {"rope_scaling": {**_YARN, "beta_fast": 32}},
            "beta slow": {"rope_scaling": {**_YARN, "beta_slow": 2}},
        },
    ),
    TinyCheckpoint("llama-bias", _llama(attention_bias=True, mlp_bias=True), 7),
    TinyCheckpoint("llama-head48", _llama(head_dim=48, hidden_size=72, num_attention_heads=6), 8),
    TinyCheckpoint("llama-head24", _llama(hidden_size=72, num_attention_heads=3, num_key_value_heads=1), 9),
    TinyCheckpoint(
        "llama-head20",
        _llama(hidden_size=60, num_attention_heads=3, num_key_value_heads=3, intermediate_size=88),
        23,
    ),
    TinyCheckpoint("llama-bf16", _llama(torch_dtype="bfloat16"), 10, dtype="bfloat16"),
    TinyCheckpoint(
        "llama-rope-parameters",
        _without(_llama(rope_parameters={**_LLAMA3, "rope_theta": 500.0}), "rope_theta"),
        11,
        mutations={"scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}},
    ),
    TinyCheckpoint(
        "qwen2",
        _qwen2(use_sliding_window=False, sliding_window=4, max_window_layers=1),
        12,
        mutations={"window that is off": {"use_sliding_window": True}},
    ),
    TinyCheckpoint(
        "qwen2-window",
        _qwen2(use_sliding_window=True, sliding_window=6, max_window_layers=1),
        113,
        mutations={
            "window": {"use_sliding_window": False},
            "window size": {"sliding_window": 7},
            "first window layer": {"max_window_layers": 2},
        },
    ),
    TinyCheckpoint(
        "qwen3",
        _config("Qwen3ForCausalLM", "qwen3", tie_word_embeddings=True, head_dim=32, attention_bias=False),
        314,
    ),
    TinyCheckpoint(
        "mistral",
        _config("MistralForCausalLM", "mistral", tie_word_embeddings=False, sliding_window=4),
        15,
        dtype="float16",
        prompts=(33, 4, 5),
        mutations={"window": {"sliding_window": None}, "window size": {"sliding_window": 5}},
    ),
    TinyCheckpoint(
        "mistral-full",
        _config("MistralForCausalLM", "mistral", tie_word_embeddings=False, sliding_window=None, head_dim=32),
        16,
        mutations={"window": {"sliding_window": 12}},
    ),
    TinyCheckpoint("phi3", _phi3(sliding_window=9), 17, mutations={"window": {"sliding_window": None}}),
    TinyCheckpoint(
        "phi3-longrope",
        _phi3(
            original_max_position_embeddings=16,
            rope_scaling={
                "type": "longrope",
                "short_factor": _SHORT_FACTORS,
                "long_factor": _LONG_FACTORS,
            },
        ),
        18,
        prompts=(15, 16, 17, 14, 33),
        new_tokens=6,
        mutations={
            "switch length": {"original_max_position_embeddings": 64},
            "long factors": {
                "rope_scaling": {
                    "type": "longrope",
                    "short_factor": _SHORT_FACTORS,
                    "long_factor": _SHORT_FACTORS,
                }
            },
        },
    ),
    TinyCheckpoint(
        "phi3-partial",
        _phi3(
            hidden_size=128,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            partial_rotary_factor=0.75,
            original_max_position_embeddings=16,
            rope_scaling={
                "type": "longrope",
                "short_factor": [1.0] * 24,
                "long_factor": [1.0 + i / 4 for i in range(24)],
            },
        ),
        19,
        prompts=(16, 24),
        new_tokens=4,
        mutations={"partial rotary": {"partial_rotary_factor": 0.75, "rope_theta": 100.0}},
    ),
    TinyCheckpoint(
        "gemma3",
        _gemma3(),
        20,
        mutations={
            "window": {"sliding_window": 64},
            "window size": {"sliding_window": 6},
            "local rope base": {"rope_local_base_freq": 100000.0},
            "global rope base": {"rope_theta": 100.0},
            "pattern": {"sliding_window_pattern": 3},
        },
    ),
    TinyCheckpoint(
        "gemma3-scaled",
        _gemma3(
            layer_types=["sliding_attention", "full_attention"] * 3 + ["sliding_attention"],
            query_pre_attn_scalar=20,
            rope_theta=1000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            torch_dtype="bfloat16",
        ),
        21,
        dtype="bfloat16",
        mutations={
            "scaling": _NO_SCALING,
            "attention scale": {"query_pre_attn_scalar": 32},
            "layer types": {"layer_types": None},
        },
    ),
    TinyCheckpoint(
        "gemma3-rope-parameters",
        _without(
            _gemma3(
                rope_parameters={
                    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                }
            ),
            "rope_theta",
            "rope_local_base_freq",
        ),
        22,
        mutations={
            "rope parameters": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                }
            }
        },
    ),
)

CHECKPOINTS: dict[str, TinyCheckpoint] = {checkpoint.name: checkpoint for checkpoint in _ALL}
