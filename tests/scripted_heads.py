"""Heads on the scripted backend, for tests of what guesses with them."""

from __future__ import annotations

from pathlib import Path

from onnxgen.backends.base import HIDDEN_STATES, DecoderModel
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.speculation.heads import HeadOptions
from onnxgen.metadata.model_spec import HeadSpec

VOCAB, HIDDEN = 32, 5
ANY = HeadOptions(cache_tokens=8192, min_confidence=0.0)


def head_backend(**options):
    return FakeBackend(VOCAB, **{"hidden_size": HIDDEN, "reads_hidden": True, **options})


def head_spec(**changes):
    model = DecoderModel(Path("head.onnx"), {HIDDEN_STATES: "hidden"}, {}, 1, VOCAB, 1024)
    return HeadSpec(**{"name": "mtp", "decoder": model, "target_outputs": ("hidden_states",), **changes})
