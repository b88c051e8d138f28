"""Names, shapes and random values of the tensors that a checkpoint with a given ``config.json`` holds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def random_tensor(
    shape: tuple[int, ...], *, seed: int, name: str, std: float, mean: float = 0.0
) -> np.ndarray:
    """Uniform float32 values of the given spread, the same everywhere for the same seed and name."""
    raw = np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])).random_raw(
        int(np.prod(shape))
    )
    uniform = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return ((uniform * 2 - 1) * np.sqrt(3.0) * std + mean).astype(np.float32).reshape(shape)


def stored_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shape of every stored tensor."""
    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kind = config["model_type"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        attention = {"q_proj": heads * head_dim, "k_proj": kv_heads * head_dim, "v_proj": kv_heads * head_dim}
        mlp = {"gate_proj": ffn, "up_proj": ffn}
        if kind == "phi3":
            attention, mlp = {"qkv_proj": (heads + 2 * kv_heads) * head_dim}, {"gate_up_proj": 2 * ffn}
        for name, rows in attention.items():
            shapes[f"{layer}self_attn.{name}.weight"] = (rows, hidden)
            if config.get("attention_bias") or kind == "qwen2":
                shapes[f"{layer}self_attn.{name}.bias"] = (rows,)
        shapes[f"{layer}self_attn.o_proj.weight"] = (hidden, heads * head_dim)
        for name, rows in mlp.items():
            shapes[f"{layer}mlp.{name}.weight"] = (rows, hidden)
            if config.get("mlp_bias"):
                shapes[f"{layer}mlp.{name}.bias"] = (rows,)
        shapes[f"{layer}mlp.down_proj.weight"] = (hidden, ffn)
        if config.get("attention_bias"):
            shapes[f"{layer}self_attn.o_proj.bias"] = (hidden,)
        if config.get("mlp_bias"):
            shapes[f"{layer}mlp.down_proj.bias"] = (hidden,)
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind == "gemma3_text":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        shapes |= {f"{layer}{norm}.weight": (hidden,) for norm in norms}
        if kind in ("qwen3", "gemma3_text"):
            shapes |= {f"{layer}self_attn.{norm}.weight": (head_dim,) for norm in ("q_norm", "k_norm")}
    shapes["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings", kind == "gemma3_text"):
        shapes["lm_head.weight"] = (vocab, hidden)
    return shapes


def weight_spread(name: str, shape: tuple[int, ...], *, gemma: bool, tied: bool) -> tuple[float, float]:
    """Standard deviation and mean of a tensor's values."""
    if "norm" in name:
        return 0.25, 0.0 if gemma else 1.0
    if name.endswith("bias"):
        return 0.5, 0.0
    if name.startswith(("model.embed_tokens", "lm_head")):
        # small where it is also the head, or each token would mostly predict itself
        return (0.03 if gemma else 0.2 if tied else 0.6), 0.0
    gain = 1.0
    if any(part in name for part in ("q_proj", "k_proj", "qkv_proj")):
        gain = 1.5
    elif any(part in name for part in ("o_proj", "down_proj")):
        gain = 2.0
    return gain / np.sqrt(shape[-1]), 0.0
