"""GGUF files of the tiny checkpoints, laid out as llama.cpp's converters do, written by the gguf library.

Quantized types come with the float32 weights that they stand for, dequantized by the gguf library, so that a
build of the file can be compared with a build of a Hugging Face checkpoint of the same values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

import tiny_tokenizer
from checkpoints import TinyCheckpoint, tensors

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "phi3": "phi3",
    "gemma3_text": "gemma3",
}
K_QUANTS = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
"""Bytes of a block of 256 values; the gguf library reads these types but does not write them."""

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_gguf_checkpoint(
    checkpoint: TinyCheckpoint, path: Path, kind: str, *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Write the checkpoint with its matrices stored as ``kind`` and return the weights that the file holds.

    Args:
        checkpoint: Its configuration and, except for K-quants, its weights.
        path: The file to write.
        kind: A ggml type: ``F32``, ``F16``, ``BF16``, ``Q8_0``, ``Q4_0``, ``Q4_1``, ``Q5_0``, ``Q5_1``,
            ``Q4_K``, ``Q5_K`` or ``Q6_K``.
        seed: Seed of the random blocks of K-quants.
    """
    config = checkpoint.config
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(str(path), architecture)
    _write_metadata(writer, config, architecture)
    rng = np.random.default_rng(seed)
    held: dict[str, np.ndarray] = {}
    for name, value in tensors(checkpoint).items():
        heads = _rotary_heads(name, config, architecture)
        stored = _to_pairs(value, heads)
        if architecture == "gemma3" and name.endswith("norm.weight"):
            stored = stored + np.float32(1)
        stored_name = _stored_name(name, architecture)
        if value.ndim == 1 or kind == "F32":
            writer.add_tensor(stored_name, stored)
            held[name] = value
            continue
        ggml_type = gguf.GGMLQuantizationType[kind]
        blocks = random_k_blocks(stored, kind, rng) if kind in K_QUANTS else quantize(stored, ggml_type)
        writer.add_tensor(stored_name, blocks, raw_dtype=ggml_type)
        held[name] = _from_pairs(dequantize(blocks, ggml_type).astype(np.float32), heads)
    _write_rope_factors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def random_k_blocks(like: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Random K-quant blocks whose values have about the spread of ``like``, uint8 ``[rows, bytes]``."""
    rows, columns = like.shape
    blocks = rng.integers(0, 256, (rows, columns // 256, K_QUANTS[kind]), np.uint8)
    ggml_type = gguf.GGMLQuantizationType[kind]

    def set_scales(scale: float) -> None:
        jitter = rng.uniform(0.8, 1.25, blocks.shape[:2])
        # the minimum of a block is about half of its range, so that its values are around zero
        pair = {"Q4_K": (1.0, 7.5), "Q5_K": (1.0, 15.5), "Q6_K": (1.0,)}[kind]
        halves = (scale * jitter[..., None] * np.array(pair)).astype("<f2")
        start = 0 if len(pair) == 2 else blocks.shape[-1] - 2
        blocks[..., start : start + 2 * len(pair)] = halves.view(np.uint8).reshape(*blocks.shape[:2], -1)

    set_scales(2.0**-8)
    flat = blocks.reshape(rows, -1)
    set_scales(2.0**-8 * float(like.std() / dequantize(flat, ggml_type).std()))
    return flat


def _stored_name(name: str, architecture: str) -> str:
    base, suffix = name.rsplit(".", 1)
    names = {**_NAMES, **_GEMMA_NAMES} if architecture == "gemma3" else _NAMES
    if not base.startswith("model.layers."):
        return f"{names[base]}.{suffix}"
    _, _, layer, inner = base.split(".", 3)
    return f"blk.{layer}.{names[inner]}.{suffix}"


def _rotary_heads(name: str, config: Mapping[str, Any], architecture: str) -> int:
    """Heads of a query or key matrix whose rows the llama converter reorders; 0 for all else."""
    if architecture != "llama":
        return 0
    if ".q_proj." in name:
        return int(config["num_attention_heads"])
    return int(config["num_key_value_heads"]) if ".k_proj." in name else 0


def _to_pairs(value: np.ndarray, heads: int) -> np.ndarray:
    if not heads:
        return value
    half = value.shape[0] // heads // 2
    return np.ascontiguousarray(
        value.reshape(heads, 2, half, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
    )


def _from_pairs(value: np.ndarray, heads: int) -> np.ndarray:
    if not heads:
        return value
    half = value.shape[0] // heads // 2
    return np.ascontiguousarray(
        value.reshape(heads, half, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
    )


def _write_metadata(writer: gguf.GGUFWriter, config: Mapping[str, Any], architecture: str) -> None:
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_name("tiny")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * config.get("partial_rotary_factor", 1.0)))
    writer.add_vocab_size(config["vocab_size"])
    if config.get("sliding_window") and architecture in ("llama", "gemma3", "phi3"):
        writer.add_sliding_window(config["sliding_window"])
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
    elif kind == "longrope":
        original = config["original_max_position_embeddings"]
        stretch = config["max_position_embeddings"] / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)))
    _write_vocabulary(writer, config["vocab_size"])


def _write_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    words = tiny_tokenizer.words()
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(words) - 3)
    words += [f"[PAD{i}]" for i in range(len(words), size)]
    kinds += [gguf.TokenType.UNUSED] * (size - len(kinds))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tiny_tokenizer.MERGES])
    writer.add_bos_token_id(tiny_tokenizer.BOS)
    writer.add_eos_token_id(tiny_tokenizer.EOS)
    writer.add_pad_token_id(tiny_tokenizer.PAD)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def _write_rope_factors(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    """What converters write of llama3 and longrope scaling: divisors of the frequencies."""
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "longrope":
        for name in ("long", "short"):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(scaling[f"{name}_factor"], np.float32))
    if kind == "llama3":
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        waves = 2 * np.pi * config["rope_theta"] ** (np.arange(0, head_dim, 2) / head_dim)
        original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = (original / waves - low) / (high - low)
        ramp = 1 / ((1 - smooth) / factor + smooth)
        divisors = np.where(waves < original / high, 1.0, np.where(waves > original / low, factor, ramp))
        writer.add_tensor("rope_freqs.weight", divisors.astype(np.float32))
