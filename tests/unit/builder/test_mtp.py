"""Heads for drafts that a checkpoint has, built beside the decoder: numbers, files, and drafts end to end."""

from __future__ import annotations

import json
import secrets
from contextlib import closing

import numpy as np
import onnx
import pytest

from onnxgen.backends import load_backend
from onnxgen.backends.base import HIDDEN_STATES, SequenceInput, pack_step
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.pipeline import build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.speculation.heads import HeadOptions
from onnxgen.engine.speculation.of_heads import HeadRecipe
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CheckpointError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.load import load_model_spec
from tiny_mimo import VOCAB, agreeing_pair, pair, write_mimo

SEED = secrets.randbits(31)


@pytest.fixture
def rng():
    print("seed", SEED)
    return np.random.default_rng(SEED)


def test_the_head_is_built_beside_the_decoder(tmp_path):
    build(write_mimo(tmp_path / "c", *pair(SEED)), tmp_path / "m", options=BuildOptions(precision="fp32"))
    spec = load_model_spec(tmp_path / "m")
    assert spec.head is not None
    assert (spec.head.name, spec.head.target_outputs) == ("mtp", ("hidden_states",))
    assert spec.head.decoder.path.name == "mtp.onnx"
    proto = onnx.load(tmp_path / "m" / "mtp.onnx", load_external_data=False)
    assert "hidden_states" in [value.name for value in proto.graph.input]
    assert "hidden_states_out" in [value.name for value in proto.graph.output]
    listed = json.loads((tmp_path / "m" / "onnxgen_build.json").read_text())["files"]
    assert "mtp.onnx" in [file["name"] for file in listed]


def test_what_both_share_is_stored_once(tmp_path):
    target, head = pair(SEED)
    build(write_mimo(tmp_path / "c", target, head), tmp_path / "m", options=BuildOptions(precision="fp32"))
    places = {}
    for name in ("model.onnx", "mtp.onnx"):
        proto = onnx.load(tmp_path / "m" / name, load_external_data=False)
        for tensor in proto.graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries:
                places.setdefault(name, {})[tensor.name] = (entries["location"], entries["offset"])
    shared = set(places["model.onnx"].values()) & set(places["mtp.onnx"].values())
    assert len(shared) == 2  # the embedding and the output head
    assert (
        places["mtp.onnx"]["model.embed_tokens.weight"] == places["model.onnx"]["model.embed_tokens.weight"]
    )


@pytest.mark.parametrize("name", ["native", "ort"])
def test_decoder_and_head_compute_what_the_checkpoint_says(name, rng, tmp_path):
    target, head = pair(SEED)
    build(write_mimo(tmp_path / "c", target, head), tmp_path / "m", options=BuildOptions(precision="fp32"))
    spec, config = load_model_spec(tmp_path / "m"), RuntimeConfig(backend=name, threads=2, cache_dir=tmp_path)
    tokens = rng.integers(3, VOCAB, 11)
    tolerance = 1e-3 if name == "ort" else 0.05

    def run(model, inputs):
        backend = load_backend(model, config)
        cache = backend.create_cache(num_seqs=1, num_tokens=16)
        part = SequenceInput(tokens, 0, list(range(cache.geometry.num_blocks)), logits="all")
        return backend.execute(pack_step([part], inputs=inputs, want_hidden_states=True), cache)

    made = run(spec.head.target(spec.decoder), {})
    assert np.abs(made.logits - target.logits(tokens)).max() < tolerance
    assert np.abs(made.hidden_states - target.hidden(tokens)).max() < tolerance
    guessed = run(spec.head.decoder, {HIDDEN_STATES: made.hidden_states})
    logits, hidden = head.run(tokens, made.hidden_states)
    assert np.abs(guessed.logits - logits).max() < tolerance
    assert np.abs(guessed.hidden_states - hidden).max() < tolerance


@pytest.mark.parametrize("precision", ["fp32", "int4"])
def test_a_built_head_that_is_right_has_its_drafts_accepted(precision, rng, tmp_path):
    target, head = agreeing_pair(SEED)
    options = (
        BuildOptions(precision=precision, block_size=16)
        if precision == "int4"
        else BuildOptions(precision=precision)
    )
    build(write_mimo(tmp_path / "c", target, head), tmp_path / "m", options=options)
    spec, runtime = load_model_spec(tmp_path / "m"), RuntimeConfig(threads=2, cache_dir=tmp_path)
    backend = load_backend(spec.head.target(spec.decoder), runtime)
    prompts = [tuple(rng.integers(3, VOCAB, 5).tolist()) for _ in range(3)]

    def answers(**more):
        core = EngineCore(backend, EngineConfig(cache_tokens=64 * 4), eos_ids=[], **more)
        method = Speculation("heads", max_draft_tokens=4, adaptive=False) if more else None
        for prompt in prompts:
            core.submit(EngineRequest(prompt=prompt, max_new_tokens=15, speculation=method))
        events = []
        while core.has_work:
            events += core.step()
        stats = core.stats().speculation.by_method
        core.close()
        found = {}
        for event in events:
            found.setdefault(event.request_id, []).append(event.token_id)
        return found, stats

    plain, _ = answers()
    with (
        HeadRecipe(runtime, HeadOptions(cache_tokens=512, min_confidence=0.0)).load(spec) as make,
        closing(make()) as proposer,
    ):
        guessed, stats = answers(proposers={"heads": proposer})
    assert guessed == plain
    assert stats["heads"].verified_tokens > 0
    if precision == "fp32":
        assert stats["heads"].accepted_tokens == stats["heads"].verified_tokens


def test_a_shortened_decoder_has_no_head(tmp_path):
    build(
        write_mimo(tmp_path / "c", *pair(SEED)),
        tmp_path / "m",
        options=BuildOptions(precision="fp32", num_layers=1),
    )
    assert load_model_spec(tmp_path / "m").head is None
    assert not (tmp_path / "m" / "mtp.onnx").exists()


def test_a_checkpoint_whose_head_lacks_a_tensor_is_refused_by_name(tmp_path):
    lacking = "model.mtp_layers.0.hidden_layernorm.weight"
    source = write_mimo(tmp_path / "c", *pair(SEED), without=(lacking,))
    with pytest.raises(CheckpointError, match="hidden_layernorm"):
        build(source, tmp_path / "m", options=BuildOptions(precision="fp32"))
    assert not (tmp_path / "m").exists()
