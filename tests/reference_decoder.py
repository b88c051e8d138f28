"""Decoders of the supported families in float64 numpy, written from their definitions and nothing of ours.

Slow and plain: every position attends to all before it through full score matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def reference_logits(
    config: Mapping[str, Any], weights: Mapping[str, np.ndarray], ids: Sequence[int]
) -> np.ndarray:
    """Logits ``[tokens, vocab]`` of a whole sequence.

    Args:
        config: A Hugging Face configuration.
        weights: Tensors by their Hugging Face names.
        ids: Token ids.
    """
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    kind = config["model_type"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    gemma = kind == "gemma3_text"

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        scale = w[name] + 1 if gemma else w[name]
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + config["rms_norm_eps"]) * scale

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    def split_heads(x: np.ndarray, count: int) -> np.ndarray:
        return x.reshape(len(ids), count, width).transpose(1, 0, 2)

    def qkv(x: np.ndarray, base: str) -> list[np.ndarray]:
        if kind == "phi3":
            sizes = [heads * width, (heads + kv_heads) * width]
            return np.split(linear(x, f"{base}.qkv_proj"), sizes, axis=-1)
        return [linear(x, f"{base}.{part}_proj") for part in "qkv"]

    x = w["model.embed_tokens.weight"][list(ids)]
    if gemma:
        x = x * math.sqrt(config["hidden_size"])
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}"
        window, theta = _window_and_theta(config, layer)
        q, k, v = qkv(norm(x, f"{base}.input_layernorm.weight"), f"{base}.self_attn")
        q, k, v = split_heads(q, heads), split_heads(k, kv_heads), split_heads(v, kv_heads)
        if kind in ("qwen3", "gemma3_text"):
            q = norm(q, f"{base}.self_attn.q_norm.weight")
            k = norm(k, f"{base}.self_attn.k_norm.weight")
        rotary = int(width * config.get("partial_rotary_factor", 1.0))
        q, k = _rotate(q, theta, rotary), _rotate(k, theta, rotary)
        scale = (config["query_pre_attn_scalar"] if gemma else width) ** -0.5
        attended = _attend(q, k, v, scale, window, config.get("attn_logit_softcapping"))
        branch = linear(attended, f"{base}.self_attn.o_proj")
        if gemma:
            branch = norm(branch, f"{base}.post_attention_layernorm.weight")
        x = x + branch
        before = "pre_feedforward_layernorm" if gemma else "post_attention_layernorm"
        h = norm(x, f"{base}.{before}.weight")
        if kind == "phi3":
            gate, up = np.split(linear(h, f"{base}.mlp.gate_up_proj"), 2, axis=-1)
        else:
            gate, up = linear(h, f"{base}.mlp.gate_proj"), linear(h, f"{base}.mlp.up_proj")
        branch = linear(
            (_gelu_tanh(gate) if gemma else gate / (1 + np.exp(-gate))) * up, f"{base}.mlp.down_proj"
        )
        if gemma:
            branch = norm(branch, f"{base}.post_feedforward_layernorm.weight")
        x = x + branch
    x = norm(x, "model.norm.weight")
    logits = x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
    cap = config.get("final_logit_softcapping")
    return cap * np.tanh(logits / cap) if cap else logits


def _window_and_theta(config: Mapping[str, Any], layer: int) -> tuple[int | None, float]:
    theta = config["rope_theta"]
    if config["model_type"] == "gemma3_text":
        local = (layer + 1) % config["sliding_window_pattern"] != 0
        return (config["sliding_window"], config["rope_local_base_freq"]) if local else (None, theta)
    if config["model_type"] in ("qwen2", "qwen3"):
        on = config.get("use_sliding_window") and layer >= config["max_window_layers"]
        return (config["sliding_window"] if on else None), theta
    return config.get("sliding_window"), theta


def _rotate(x: np.ndarray, theta: float, rotary: int) -> np.ndarray:
    half = rotary // 2
    angles = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) * 2 / rotary)
    a, b, rest = x[..., :half], x[..., half:rotary], x[..., rotary:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, window: int | None, cap: float | None
) -> np.ndarray:
    groups = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, groups, axis=0), np.repeat(v, groups, axis=0)
    scores = q @ k.transpose(0, 2, 1) * scale
    if cap:
        scores = cap * np.tanh(scores / cap)
    distance = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])[None, :]
    hidden = (distance < 0) | (distance >= (window or q.shape[1]))
    scores = np.where(hidden, -np.inf, scores)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(1, 0, 2).reshape(q.shape[1], -1)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
