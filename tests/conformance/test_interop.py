"""Folders go both ways: onnxruntime-genai runs what we build, and we run what its builder made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onnxgen
from checkpoints import CHECKPOINTS, TinyCheckpoint, prompt_ids, write_checkpoint
from golden_data import golden_cases
from onnxgen.builder import BuildOptions, build
from same_program import greedy_tokens, open_model

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("og-built-*"))
BUILDABLE = [name for name in CHECKPOINTS if name != "llama-head20"]


def _stays_on_one_side(checkpoint: TinyCheckpoint, prompt: int, new_tokens: int) -> bool:
    """Whether a sequence never crosses the switch of a longrope model.

    onnxruntime-genai recomputes the cache there only for the switch lengths of the published Phi-3 models.
    """
    scaling = checkpoint.config.get("rope_scaling") or {}
    switch = checkpoint.config.get("original_max_position_embeddings", 0)
    return scaling.get("type") != "longrope" or prompt > switch or prompt + new_tokens <= switch


@pytest.mark.interop
@pytest.mark.parametrize("precision", ["int4", "int8", "fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", BUILDABLE)
def test_onnxruntime_genai_gives_our_tokens_on_our_folders(tmp_path: Path, name: str, precision: str):
    genai = pytest.importorskip("onnxruntime_genai")
    checkpoint = CHECKPOINTS[name]
    source = write_checkpoint(checkpoint, tmp_path / "checkpoint")
    build(source, tmp_path / "model", options=BuildOptions.from_extra(precision))
    ours, theirs = open_model(onnxgen, tmp_path / "model"), open_model(genai, tmp_path / "model")
    lengths = [n for n in checkpoint.prompts if _stays_on_one_side(checkpoint, n, checkpoint.new_tokens)]
    assert lengths
    for length in lengths:
        prompt = prompt_ids(checkpoint, length)
        expected = greedy_tokens(genai, theirs, prompt, checkpoint.new_tokens)
        assert greedy_tokens(onnxgen, ours, prompt, checkpoint.new_tokens) == expected


def test_there_are_folders_of_their_builder():
    assert len(FIXTURES) == 4


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_we_give_their_tokens_on_their_folders(folder: Path):
    golden = json.loads((folder / "greedy.json").read_text(encoding="utf-8"))
    model = open_model(onnxgen, folder)
    assert golden["answers"]
    for answer in golden["answers"]:
        expected = answer["output_ids"]
        assert greedy_tokens(onnxgen, model, answer["input_ids"], len(expected)) == expected


def test_their_float32_folder_gives_the_tokens_of_transformers():
    (folder,) = [folder for folder in FIXTURES if folder.name == "og-built-llama-fp32"]
    model = open_model(onnxgen, folder)
    for case in golden_cases(CHECKPOINTS["llama"]):
        assert greedy_tokens(onnxgen, model, case.prompt, len(case.greedy)) == case.greedy
