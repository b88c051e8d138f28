"""A checkpoint in memory: a `WeightSource` over a dictionary of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkpoint_weights import stored_shapes
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import CheckpointError


class MemorySource:
    """Tensors by name; a tensor may also be given in quantized blocks, as a GGUF file holds them.

    Args:
        config: Its configuration.
        tensors: Float arrays.
        blocks: Matrices in blocks, by the same names.
        path: What it is called in messages.
        stored_types: Names of storage types that are not those of the arrays.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray],
        *,
        path: Path,
        blocks: Mapping[str, BlockQuantized] | None = None,
        stored_types: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.config = config
        self.tensors = dict(tensors)
        self.blocks = dict(blocks or {})
        self.stored_types = dict(stored_types or {})
        self.loaded: list[str] = []

    @property
    def metadata(self) -> None:
        return None

    @property
    def names(self) -> set[str]:
        return set(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def stored_type(self, name: str) -> str:
        kinds = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
        return self.stored_types.get(name, kinds[self.tensors[name].dtype.name])

    def load(self, name: str) -> np.ndarray:
        if name not in self.tensors:
            raise CheckpointError(f"no {name}")
        self.loaded.append(name)
        return self.tensors[name].copy()

    def load_blocks(self, name: str) -> BlockQuantized | None:
        return self.blocks.get(name)

    def close(self) -> None:
        pass


def random_source(config: Mapping[str, Any], path: Path, seed: int) -> MemorySource:
    """Random weights for a configuration, at scales where attention and MLP both matter."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in stored_shapes(config).items():
        spread = 0.3 if len(shape) == 1 else 1.0 / np.sqrt(shape[-1])
        centre = 1.0 if name.endswith("norm.weight") and config["model_type"] != "gemma3_text" else 0.0
        tensors[name] = (rng.standard_normal(shape) * spread + centre).astype(np.float32)
    return MemorySource(config, tensors, path=path)
