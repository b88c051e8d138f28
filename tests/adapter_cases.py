"""Adapters of the tiny checkpoints that there are goldens of, and the settings that their scale comes from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import CHECKPOINTS, TinyCheckpoint, digest
from peft_by_hand import random_pairs, write_peft

FOLDER = Path(__file__).parent / "goldens" / "adapters"


@dataclass(frozen=True, slots=True)
class AdapterCase:
    """One adapter.

    Attributes:
        checkpoint: Name of its base.
        seed: Of its weights.
        rank: Of all modules.
        scale: What its products are multiplied by.
        settings: What makes PEFT scale them so.
        only: Ends of the names of its modules; empty: all linear layers.
    """

    checkpoint: str
    seed: int
    rank: int
    scale: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()

    @property
    def base(self) -> TinyCheckpoint:
        """What it was trained on, as it were."""
        return CHECKPOINTS[self.checkpoint]

    def pairs(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """lora_A and lora_B by module."""
        return random_pairs(self.base, seed=self.seed, rank=self.rank, only=self.only)

    def write(self, folder: Path) -> Path:
        """The adapter as a PEFT folder."""
        return write_peft(folder, self.pairs(), **self.settings)

    def digest(self) -> str:
        """Hash over the base and the adapter."""
        total = hashlib.sha256(f"{digest(self.base)} {self.scale}".encode())
        for name, (a, b) in sorted(self.pairs().items()):
            total.update(name.encode() + a.tobytes() + b.tobytes())
        return total.hexdigest()


ADAPTER_CASES = {
    "llama": AdapterCase("llama", 51, 8, 2.0, {"alpha": 16}),
    "llama-attention": AdapterCase("llama-untied", 52, 4, 1.0, {"alpha": 4}, ("q_proj", "v_proj")),
    "qwen2-rslora": AdapterCase("qwen2", 53, 9, 4.0 / 3.0, {"alpha": 4, "use_rslora": True}),
    "qwen3-mlp": AdapterCase("qwen3", 34, 3, 2.0, {"alpha": 6}, ("gate_proj", "up_proj", "down_proj")),
    "phi3-fused": AdapterCase("phi3", 35, 5, 0.5, {"alpha": 2.5}),
    "gemma3": AdapterCase("gemma3", 36, 6, 1.5, {"alpha_pattern": {".*_proj": 9}}),
    "mistral-head": AdapterCase("mistral", 57, 7, 1.0, {}, ("o_proj", "lm_head")),
}


def check_scale(case: AdapterCase) -> None:
    """That settings and scale of a case say the same, by the definition and not by our reader."""
    alpha = case.settings.get("alpha", case.rank)
    alpha = next(iter(case.settings.get("alpha_pattern", {"": alpha}).values()))
    root = math.sqrt(case.rank) if case.settings.get("use_rslora") else case.rank
    assert math.isclose(alpha / root, case.scale), (alpha, root, case.scale)


def golden(name: str) -> Mapping[str, np.ndarray]:
    """``prompt``, ``logits`` ``[tokens, vocab]``, ``greedy`` and ``greedy_logits`` of a case."""
    with np.load(FOLDER / f"{name}.npz") as file:
        made_by = json.loads(str(file["made_by"]))
        assert made_by["adapter"] == ADAPTER_CASES[name].digest(), (
            f"the golden file belongs to another adapter; run scripts/make_adapter_goldens.py {name}"
        )
        return {key: file[key] for key in ("prompt", "logits", "greedy", "greedy_logits")}
