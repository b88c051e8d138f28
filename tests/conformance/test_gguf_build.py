"""Folders built from GGUF files: the logits of the same weights in a Hugging Face checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from backend_runs import open_folder
from checkpoints import CHECKPOINTS, TinyCheckpoint, prompt_ids, write_checkpoint
from folder_runner import FolderRunner
from gguf_checkpoints import K_QUANTS, write_gguf_checkpoint
from golden_data import golden_cases
from onnxgen.builder import BuildOptions, build

SAME = 2e-5
"""Largest difference, relative to the spread of the logits, of builds that hold the same values: rounding of
float32 sums in another order."""

FP32 = BuildOptions(precision="fp32")
CARRIED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K"]
ROUNDED_AGAIN = ["Q5_1", "Q5_K"]

STORED = ["llama", "llama-untied", "llama-llama3", "llama-linear", "llama-yarn", "llama-head48", "mistral"]
STORED += ["mistral-full", "qwen2", "qwen3", "phi3", "phi3-longrope"]

# matrices with rows that blocks of 256 divide
WIDE = {
    name: dataclasses.replace(
        CHECKPOINTS[name],
        config={
            **CHECKPOINTS[name].config,
            "hidden_size": 256,
            "intermediate_size": 256,
            "num_attention_heads": 4,
            "head_dim": 64,
            "query_pre_attn_scalar": 64,
        },
    )
    for name in ("llama", "qwen2", "gemma3")
}


def _logits(source: Path, output: Path, options: BuildOptions, prompt: list[int]) -> np.ndarray:
    """Logits of a build by ONNX Runtime's own arithmetic: what the folder says, not how our adapter runs it."""
    build(source, output, options=options)
    return FolderRunner(output)(prompt)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max() / (b.max() - b.min()))


def _without_defaults(checkpoint: TinyCheckpoint) -> TinyCheckpoint:
    """Gemma 3 files do not hold the base of windowed layers; it is 10000 for all of them."""
    if "rope_local_base_freq" not in checkpoint.config:
        return checkpoint
    return dataclasses.replace(checkpoint, config={**checkpoint.config, "rope_local_base_freq": 10000.0})


@pytest.mark.parametrize("name", STORED)
def test_a_float32_file_has_the_golden_logits(tmp_path: Path, name: str):
    checkpoint = CHECKPOINTS[name]
    write_gguf_checkpoint(checkpoint, tmp_path / "model.gguf", "F32")
    build(tmp_path / "model.gguf", tmp_path / "model", options=FP32)
    with open_folder(tmp_path / "model") as run:
        for case in golden_cases(checkpoint):
            assert case.relative_error(run.logits(case.prompt), case.logits) < 1e-4


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", *CARRIED, *ROUNDED_AGAIN])
@pytest.mark.parametrize("name", WIDE)
def test_a_float32_build_equals_one_of_the_dequantized_checkpoint(tmp_path: Path, name: str, kind: str):
    checkpoint = _without_defaults(WIDE[name])
    weights = write_gguf_checkpoint(checkpoint, tmp_path / "model.gguf", kind, seed=checkpoint.seed)
    source = write_checkpoint(checkpoint, tmp_path / "checkpoint", weights=weights)
    prompt = prompt_ids(checkpoint, 21)
    wanted = _logits(source, tmp_path / "from-checkpoint", FP32, prompt)
    assert _difference(_logits(tmp_path / "model.gguf", tmp_path / "from-gguf", FP32, prompt), wanted) < SAME


@pytest.mark.parametrize("precision", ["int4", "int8"])
@pytest.mark.parametrize("kind", CARRIED)
@pytest.mark.parametrize("name", WIDE)
def test_blocks_are_carried_over_exactly(tmp_path: Path, name: str, kind: str, precision: str):
    checkpoint = _without_defaults(WIDE[name])
    write_gguf_checkpoint(checkpoint, tmp_path / "model.gguf", kind, seed=checkpoint.seed)
    prompt = prompt_ids(checkpoint, 21)
    options = BuildOptions.from_extra(precision, extra=["accuracy_level=0"])
    wanted = _logits(tmp_path / "model.gguf", tmp_path / "fp32", FP32, prompt)
    assert _difference(_logits(tmp_path / "model.gguf", tmp_path / "blocks", options, prompt), wanted) < SAME


@pytest.mark.parametrize("kind", ROUNDED_AGAIN)
@pytest.mark.parametrize("name", WIDE)
def test_blocks_that_cannot_be_held_become_8_bit(tmp_path: Path, name: str, kind: str):
    checkpoint = _without_defaults(WIDE[name])
    write_gguf_checkpoint(checkpoint, tmp_path / "model.gguf", kind, seed=checkpoint.seed)
    prompt = prompt_ids(checkpoint, 21)
    options = BuildOptions.from_extra("int4", extra=["accuracy_level=0"])
    wanted = _logits(tmp_path / "model.gguf", tmp_path / "fp32", FP32, prompt)
    got = _logits(tmp_path / "model.gguf", tmp_path / "blocks", options, prompt)
    assert 0 < np.sqrt(np.mean((got - wanted) ** 2)) / wanted.std() < 0.06


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K"])
def test_requantizing_changes_the_values(tmp_path: Path, kind: str):
    checkpoint = WIDE["llama"]
    write_gguf_checkpoint(checkpoint, tmp_path / "model.gguf", kind, seed=checkpoint.seed)
    prompt = prompt_ids(checkpoint, 21)
    wanted = _logits(tmp_path / "model.gguf", tmp_path / "fp32", FP32, prompt)
    options = BuildOptions.from_extra("int4", requantize=True, extra=["accuracy_level=0"])
    got = _logits(tmp_path / "model.gguf", tmp_path / "blocks", options, prompt)
    assert _difference(got, wanted) > 100 * SAME
    assert np.sqrt(np.mean((got - wanted) ** 2)) / wanted.std() < 0.6


def test_random_k_quants_are_of_every_kind_that_is_tested():
    assert set(K_QUANTS) == {kind for kind in [*CARRIED, *ROUNDED_AGAIN] if kind.endswith("_K")}
