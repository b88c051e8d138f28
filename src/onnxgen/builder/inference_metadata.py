"""``inference_metadata.yaml``: the model folder in the vocabulary of the ONNX inference metadata standard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.builder.cache_names import HIDDEN_STATES, PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from onnxgen.builder.genai_config import sampling_defaults
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.spec import DecoderSpec

_PRECISIONS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}


def inference_metadata(
    spec: DecoderSpec,
    options: BuildOptions,
    generation: Mapping[str, Any],
    *,
    tokenizer: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The content of ``inference_metadata.yaml``.

    Args:
        spec: What the decoder computes.
        options: How it is stored.
        generation: ``generation_config.json``, empty where there is none.
        tokenizer: Facts about the tokenizer, or None where the folder has none.
    """
    layers = range(len(spec.layers))
    attention: dict[str, Any] = {
        "type": "grouped_query",
        "num_attention_heads": spec.heads,
        "num_kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
    }
    windows = {layer.window for layer in spec.layers}
    window = next(iter(windows))
    if len(windows) == 1 and window is not None:
        attention["sliding_window"] = window
    document: dict[str, Any] = {
        "schema_version": "v1",
        "model": {
            "attention": attention,
            "io": {
                "sequence_source": "token_ids",
                "token_input": "input_ids",
                "attention_mask_input": "attention_mask",
                "logits_output": "logits",
                "kv_inputs": _names(layers, PAST_KEY, PAST_VALUE),
                "kv_outputs": _names(layers, PRESENT_KEY, PRESENT_VALUE),
                "kv_layout": "head_major_bnsh",
                "kv_ownership": "owned",
                "aliasing": "permitted",
            },
            "max_sequence_length": spec.context,
            "vocab_size": spec.vocab,
        },
        "generation": {"defaults": {**sampling_defaults(generation), "max_length": spec.context}},
        "quantization": {"default": _PRECISIONS.get(options.precision, options.precision)},
        "required_capabilities": ["grouped_query_attention", "kv_cache"],
    }
    if not spec.rotates_in_attention:
        document["model"]["io"]["position_ids_input"] = "position_ids"
    if options.include_hidden_states:
        document["model"]["io"]["hidden_output"] = HIDDEN_STATES
    if tokenizer is not None:
        document["package"] = {"tokenizer": dict(tokenizer)}
    return document


def _names(layers: Sequence[int], *patterns: str) -> list[str]:
    return [pattern % index for index in layers for pattern in patterns]
