"""The same greedy loop over onnxgen or onnxruntime-genai, whichever module is given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import onnxgen
from onnxgen.foundations.runtime_config import RuntimeConfig


def greedy_tokens(api: Any, model: Any, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """Tokens after the prompt, without one that ends the sequence.

    Args:
        api: ``onnxgen`` or ``onnxruntime_genai``.
        model: A ``Model`` of that module.
        prompt: Token ids.
        new_tokens: How many at most.
    """
    params = api.GeneratorParams(model)
    total = len(prompt) + new_tokens
    params.set_search_options(do_sample=False, max_length=total)
    generator = api.Generator(model, params)
    generator.append_tokens(np.array(prompt, np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)[len(prompt) :]]


def open_model(api: Any, folder: Path) -> Any:
    """A ``Model`` of the module, both on ONNX Runtime: tokens of random weights differ by how activations are rounded."""
    if api is onnxgen:
        return onnxgen.Model(str(folder), runtime=RuntimeConfig(backend="ort"))
    return api.Model(str(folder))
