"""Read the golden files that ``scripts/make_goldens.py`` wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints import TinyCheckpoint, digest

FOLDER = Path(__file__).parent / "goldens"


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One prompt and what transformers computes for it.

    Attributes:
        prompt: Token ids.
        logits: float32 ``[tokens, vocab]``, from one pass over the prompt.
        greedy: Token ids that greedy search appends.
        greedy_logits: float32 ``[new tokens, vocab]``, what each of them was chosen from.
    """

    prompt: list[int]
    logits: np.ndarray
    greedy: list[int]
    greedy_logits: np.ndarray

    def relative_error(self, logits: np.ndarray, wanted: np.ndarray) -> float:
        """The largest difference, relative to the spread of the prompt's logits."""
        assert logits.shape == wanted.shape, (logits.shape, wanted.shape)
        return float(np.abs(logits - wanted).max() / (self.logits.max() - self.logits.min()))

    def rms_error(self, logits: np.ndarray) -> float:
        """Root mean square of the difference over that of the prompt's logits around their mean."""
        assert logits.shape == self.logits.shape, (logits.shape, self.logits.shape)
        return float(np.sqrt(np.mean((logits - self.logits) ** 2)) / self.logits.std())


def golden_cases(checkpoint: TinyCheckpoint) -> list[GoldenCase]:
    """All cases of a checkpoint, after a check that they belong to its weights."""
    with np.load(FOLDER / f"{checkpoint.name}.npz") as file:
        made_by = json.loads(str(file["made_by"]))
        assert made_by["weights"] == digest(checkpoint), (
            f"the golden file of {checkpoint.name} belongs to other weights; run scripts/make_goldens.py"
        )
        return [
            GoldenCase(
                file[f"prompt_{i}"].tolist(),
                file[f"logits_{i}"],
                file[f"greedy_{i}"].tolist(),
                file[f"greedy_logits_{i}"],
            )
            for i in range(len(checkpoint.prompts))
        ]
