"""onnxruntime-genai loads what we build and chooses the tokens that the goldens say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.builder import BuildOptions, build

_GOLDENS = Path(__file__).parent.parent / "goldens"


@pytest.mark.interop
@pytest.mark.parametrize("name", ["llama", "llama-head24", "mistral", "qwen2", "qwen3", "phi3", "gemma3"])
def test_greedy_tokens_of_onnxruntime_genai(name: str, tmp_path: Path) -> None:
    genai = pytest.importorskip("onnxruntime_genai")
    checkpoint = write_checkpoint(CHECKPOINTS[name], tmp_path / "checkpoint")
    folder = tmp_path / "model"
    build(checkpoint, folder, options=BuildOptions("fp32"))
    golden = np.load(_GOLDENS / f"{name}.npz")
    prompt, expected = golden["prompt_0"].tolist(), golden["greedy_0"].tolist()
    model = genai.Model(str(folder))
    params = genai.GeneratorParams(model)
    # Goldens treat ids that end a sequence like any other.
    total = len(prompt) + len(expected)
    params.set_search_options(max_length=total, min_length=total, do_sample=False)
    generator = genai.Generator(model, params)
    generator.append_tokens(np.array([prompt], dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert list(generator.get_sequence(0))[len(prompt) :] == expected
    del generator, params, model
