"""``genai_config.json`` and ``inference_metadata.yaml``, read back by the readers of the runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.genai_config import sampling_defaults
from onnxgen.metadata import load_model_spec


@pytest.mark.parametrize(
    "name", ["llama", "llama-head24", "mistral", "qwen2", "qwen3", "phi3-longrope", "gemma3"]
)
def test_both_files_read_back_as_the_same_model(name: str, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(CHECKPOINTS[name], tmp_path / "checkpoint")
    (checkpoint / "generation_config.json").write_text(
        json.dumps(
            {"eos_token_id": [2, 5], "bos_token_id": 1, "temperature": 0.6, "do_sample": True, "top_k": 20}
        )
    )
    folder = tmp_path / "model"
    build(checkpoint, folder, options=BuildOptions("fp32"))
    first = load_model_spec(folder)
    (folder / "genai_config.json").unlink()
    second = load_model_spec(folder)
    config = CHECKPOINTS[name].config
    for field in ("path", "num_layers", "vocab_size", "context_length", "rope_switch_length"):
        assert getattr(first.decoder, field) == getattr(second.decoder, field)
    # The first file has names for roles that this graph does not have.
    assert second.decoder.inputs.items() <= first.decoder.inputs.items()
    assert second.decoder.outputs.items() <= first.decoder.outputs.items()
    assert first.context_length == second.context_length == config["max_position_embeddings"]
    assert first.decoder.rope_switch_length == (16 if name == "phi3-longrope" else None)
    assert ("position_ids" in second.decoder.inputs) is (name == "llama-head24")
    assert set(first.tokens.eos) == set(second.tokens.eos) >= {2, 5}
    for spec in (first, second):
        assert (spec.search.do_sample, spec.search.temperature, spec.search.top_k) == (True, 0.6, 20)
    assert set(second.required_capabilities) == {"grouped_query_attention", "kv_cache"}


def test_hidden_states_are_given_out_where_they_are_asked_for(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(CHECKPOINTS["llama"], tmp_path / "checkpoint")
    for asked in (False, True):
        folder = tmp_path / str(asked)
        build(checkpoint, folder, options=BuildOptions("fp32", include_hidden_states=asked))
        document = json.loads((folder / "genai_config.json").read_text())
        outputs = [v.name for v in onnx.load(folder / "model.onnx", load_external_data=False).graph.output]
        assert ("hidden_states" in outputs) is asked
        assert ("hidden_states" in document["model"]["decoder"]["outputs"]) is asked
        first = load_model_spec(folder)
        (folder / "genai_config.json").unlink()
        second = load_model_spec(folder)
        # other folders leave the name empty: there is no such output
        assert bool(first.decoder.outputs.get("hidden_states")) is asked
        assert bool(second.decoder.outputs.get("hidden_states")) is asked


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        ({}, {"do_sample": False, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0}),
        ({"temperature": 0.0, "do_sample": True}, {"do_sample": False, "temperature": 1.0}),
        (
            {"temperature": None, "top_k": True, "do_sample": 1},
            {"temperature": 1.0, "top_k": 50, "do_sample": False},
        ),
        ({"top_p": 0.9, "repetition_penalty": 1.1}, {"top_p": 0.9, "repetition_penalty": 1.1}),
    ],
)
def test_unusable_sampling_options_stay_at_the_defaults(
    generation: dict[str, Any], expected: dict[str, Any]
) -> None:
    chosen = sampling_defaults(generation)
    assert {key: chosen[key] for key in expected} == expected
    assert isinstance(chosen["do_sample"], bool)
