"""PEFT adapters for the tiny checkpoints, random and written by hand, and the checkpoints with them merged in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkpoint_weights import random_tensor
from checkpoints import TinyCheckpoint, tensors
from safetensors_by_hand import write_safetensors

Pairs = Mapping[str, tuple[np.ndarray, np.ndarray]]


def linear_modules(checkpoint: TinyCheckpoint) -> list[str]:
    """Names of all linear layers that the checkpoint stores matrices of, the head included."""
    return [
        name.removesuffix(".weight")
        for name, value in tensors(checkpoint).items()
        if value.ndim == 2 and "embed_tokens" not in name
    ]


def random_pairs(
    checkpoint: TinyCheckpoint, *, seed: int, rank: int, only: Sequence[str] = (), strength: float = 0.5
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """lora_A ``[rank, in]`` and lora_B ``[out, rank]`` of all linear layers, or of those whose names end with some words.

    Their product is about ``strength`` times as large as the matrix that it is added to.
    """
    pairs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    weights = tensors(checkpoint)
    for module in linear_modules(checkpoint):
        if only and not module.endswith(tuple(only)):
            continue
        matrix = weights[f"{module}.weight"]
        out_features, in_features = matrix.shape
        a = random_tensor((rank, in_features), seed=seed, name=f"{module}.a", std=1.0)
        b = random_tensor((out_features, rank), seed=seed, name=f"{module}.b", std=1.0)
        pairs[module] = a, b * np.float32(strength * matrix.std() / np.sqrt(rank))
    return pairs


def write_peft(
    folder: Path, pairs: Pairs, *, alpha: float | None = None, dtype: str = "float32", **config: Any
) -> Path:
    """Write a PEFT folder; without ``alpha`` the scale is 1."""
    folder.mkdir(parents=True, exist_ok=True)
    rank = next(iter(pairs.values()))[0].shape[0]
    document = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank if alpha is None else alpha,
        "target_modules": sorted({module.rpartition(".")[2] for module in pairs}), "bias": "none",
        "fan_in_fan_out": False, "use_rslora": False, "use_dora": False, "modules_to_save": None,
        "rank_pattern": {}, "alpha_pattern": {}, "base_model_name_or_path": "tiny", **config,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(document), encoding="utf-8")
    named = {
        f"base_model.model.{module}.lora_{side}.weight": matrix
        for module, pair in pairs.items()
        for side, matrix in zip("AB", pair, strict=True)
    }
    write_safetensors(folder / "adapter_model.safetensors", named, dtype)
    return folder


def merged(checkpoint: TinyCheckpoint, pairs: Pairs, *, scale: float = 1.0) -> dict[str, np.ndarray]:
    """The checkpoint's tensors with ``scale * B A`` added, float32."""
    weights = tensors(checkpoint)
    for module, (a, b) in pairs.items():
        name = f"{module}.weight"
        delta = scale * (b.astype(np.float64) @ a.astype(np.float64))
        weights[name] = (weights[name].astype(np.float64) + delta).astype(np.float32)
    return weights
