"""Runs a built model folder with ONNX Runtime, directly and without any of our own runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime


class FolderRunner:
    """One sequence through the decoder of a folder, in pieces of any length.

    Args:
        folder: The model folder.
    """

    def __init__(self, folder: Path) -> None:
        decoder = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))["model"]["decoder"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / decoder["filename"]), options, providers=["CPUExecutionProvider"]
        )
        types = {value.name: value.type for value in self.session.get_inputs()}
        self._names = set(types)
        self._dtype = np.float16 if types["past_key_values.0.key"] == "tensor(float16)" else np.float32
        self._caches = [
            f"{layer}.{part}" for layer in range(decoder["num_hidden_layers"]) for part in ("key", "value")
        ]
        self._shape = (1, decoder["num_key_value_heads"], 0, decoder["head_size"])
        self.reset()

    def reset(self) -> None:
        """Forget the sequence."""
        self._past = [np.zeros(self._shape, self._dtype) for _ in self._caches]
        self._length = 0

    def __call__(self, ids: Sequence[int]) -> np.ndarray:
        """Logits ``[tokens, vocab]`` of further tokens."""
        start = self._length
        self._length += len(ids)
        feeds = {
            "input_ids": np.array([ids], dtype=np.int64),
            "attention_mask": np.ones((1, self._length), dtype=np.int64),
        }
        if "position_ids" in self._names:
            feeds["position_ids"] = np.arange(start, self._length, dtype=np.int64)[None]
        feeds |= {
            f"past_key_values.{name}": past for name, past in zip(self._caches, self._past, strict=True)
        }
        outputs = ["logits", *(f"present.{name}" for name in self._caches)]
        logits, *self._past = self.session.run(outputs, feeds)
        assert logits.dtype == np.float32
        return logits[0]
