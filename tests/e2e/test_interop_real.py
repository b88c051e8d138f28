"""onnxruntime-genai on the SmolLM2 folder that we build."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxgen
from onnxgen.builder import BuildOptions, build
from real_models import checkpoint_file, real_golden
from same_program import greedy_tokens, open_model

pytestmark = [pytest.mark.network, pytest.mark.interop, pytest.mark.timeout(900)]

NEW_TOKENS = 32


@pytest.mark.parametrize(
    "options", [BuildOptions(), BuildOptions(requantize=True)], ids=["carried", "symmetric"]
)
def test_smollm2_int4_gives_the_same_tokens_with_both(tmp_path: Path, options: BuildOptions):
    genai = pytest.importorskip("onnxruntime_genai")
    folder = tmp_path / "model"
    build(checkpoint_file("smollm2", fetch=True), folder, options=options)
    ours, theirs = open_model(onnxgen, folder), open_model(genai, folder)
    for prompt in real_golden("smollm2")["prompts"][:4]:
        expected = greedy_tokens(genai, theirs, prompt["input_ids"], NEW_TOKENS)
        assert greedy_tokens(onnxgen, ours, prompt["input_ids"], NEW_TOKENS) == expected
    text = prompt["text"]
    assert (
        onnxgen.Tokenizer(str(folder)).encode(text).tolist()
        == genai.Tokenizer(str(folder)).encode(text).tolist()
    )
