"""Graphs that onnxruntime-genai publishes, in our runtime and in ONNX Runtime, on the same random feeds."""

import pytest

from onnxgen.conformance.models import compare_model
from published_models import published

MODELS = (
    "engine/synthetic-paged/decoder.onnx",
    "hf-internal-testing/tiny-random-gpt2-fp32/past.onnx",
    "hf-internal-testing/tiny-random-lfm2-fp32/decoder.onnx",
    "marian-batch-beams/decoder.onnx",
    "marian-batch-beams/encoder.onnx",
    "marian-batch-values/decoder.onnx",
    "marian-batch-values/encoder.onnx",
    "marian-batch/decoder.onnx",
    "marian-batch/encoder.onnx",
    "multimodal-decoder-no-input-ids/dummy_embedding.onnx",
    "multimodal-decoder-no-input-ids/dummy_text.onnx",
    "multimodal-decoder-no-input-ids/dummy_vision.onnx",
    "multimodal-decoder-with-input-ids/dummy_embedding.onnx",
    "multimodal-decoder-with-input-ids/dummy_text.onnx",
    "multimodal-decoder-with-input-ids/dummy_vision.onnx",
    "phi3-v/dummy_embedding.onnx",
    "phi3-v/dummy_text.onnx",
    "phi3-v/dummy_vision.onnx",
    "qwen3-5/dummy_embedding.onnx",
    "qwen3-5/dummy_text.onnx",
    "qwen3-5/dummy_vision.onnx",
    "whisper/dummy_decoder.onnx",
)


SIZES = {
    "hf-internal-testing/tiny-random-gpt2-fp32/past.onnx": {
        "batch_size": 2, "seq_len": 3, "past_seq_len": 4, "total_seq_len": 7,
    },
}  # fmt: skip
"""Where sizes must fit each other, and only ONNX Runtime also reads a mask that is too short."""


@pytest.mark.parametrize("name", MODELS)
def test_a_published_graph_gives_onnx_runtimes_outputs(name):
    verdict = compare_model(published(name), ["cpu", "reference"], SIZES.get(name, {}), seed=7)
    assert verdict.startswith("equal within"), verdict
