"""Decoders with weights of 4 bits: their logits in our session and in ONNX Runtime, prompt and next tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from kernel_runs import fresh_rng
from onnxgen import InferenceSession

FIXTURES = Path(__file__).parent.parent / "fixtures"
BUILT = ("og-built-llama-int4", "og-built-qwen3-int4-pruned", "og-built-phi3-longrope-int4")
SMOLLM2 = Path.home() / ".cache" / "onnxgen" / "models" / "smollm2-int4" / "model.onnx"


def _theirs(model: Path | bytes) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def _steps(session, path, ids, cuts):
    """Logits of each step: the prompt, then what follows, with the cache that the step before left."""
    decoder = json.loads((path.parent / "genai_config.json").read_text(encoding="utf-8"))["model"]["decoder"]
    outputs = [value.name for value in session.get_outputs()]
    shape = 1, decoder["num_key_value_heads"], 0, decoder["head_size"]
    past = [value.name for value in session.get_inputs() if value.name.startswith("past")]
    cache = {name: np.zeros(shape, np.float32) for name in past}
    steps, done = [], 0
    for cut in cuts:
        feeds = {"input_ids": ids[:, done:cut], "attention_mask": np.ones((1, cut), np.int64), **cache}
        results = dict(zip(outputs, session.run(None, feeds), strict=True))
        steps.append(results["logits"])
        cache = {name: results[name.replace("past_key_values", "present")] for name in cache}
        done = cut
    return steps


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("level", [0, 4])
def test_logits_of_small_decoders_are_those_of_onnx_runtime(name, level):
    path = FIXTURES / name / "model.onnx"
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = level
    ids = fresh_rng().integers(0, 100, (1, 40))
    sessions = [make(model.SerializeToString()) for make in (InferenceSession, _theirs)]
    got, want = (_steps(session, path, ids, (17, 18, 40)) for session in sessions)
    for ours, theirs in zip(got, want, strict=True):
        difference = np.abs(ours - theirs)
        if level == 0:
            assert difference.max() <= 2e-3 * np.abs(theirs).max()
        else:  # both quantize activations to 8 bits, each in its own way
            assert np.square(difference).mean() ** 0.5 <= 5e-2 * np.square(theirs).mean() ** 0.5


@pytest.mark.skipif(not SMOLLM2.exists(), reason="no built folder: onnxgen run smollm2 'Hello' makes one")
def test_logits_of_a_real_decoder_are_those_of_onnx_runtime():
    ids = fresh_rng().integers(0, 40000, (1, 60))
    cuts = (50, 51, 52, 60)
    sessions = InferenceSession(SMOLLM2), _theirs(SMOLLM2)
    got, want = (_steps(session, SMOLLM2, ids, cuts) for session in sessions)
    for ours, theirs in zip(got, want, strict=True):
        assert np.abs(ours - theirs).max() <= 2e-3 * np.abs(theirs).max()


def test_a_decoder_keeps_no_weights_of_4_bits_beside_the_packed_ones():
    session = InferenceSession(FIXTURES / BUILT[0] / "model.onnx")
    calls = session._executable._routine.program.calls
    products = [call for call in calls if call.spec.op_type == "MatMulNBits"]
    assert len(products) == 11
    for call in products:
        assert call.kernel.absorbed
        assert call.spec.constants[1].strides == (0, 0, 0)
