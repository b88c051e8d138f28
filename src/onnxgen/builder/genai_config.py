"""``genai_config.json``: the model folder as onnxruntime-genai reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxgen.builder.cache_names import (
    HEAD_HIDDEN_STATES,
    HIDDEN_STATES,
    PAST_KEY,
    PAST_VALUE,
    PRESENT_KEY,
    PRESENT_VALUE,
)
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.spec import DecoderSpec
from onnxgen.builder.special_tokens import SpecialTokenIds

_SAMPLING = {
    "do_sample": (bool,),
    "repetition_penalty": (int, float),
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
}
_SAMPLING_DEFAULTS: Mapping[str, Any] = {
    "do_sample": False,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}


def sampling_defaults(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling options that ``generation_config.json`` sets to a usable value, over the usual defaults."""
    chosen = dict(_SAMPLING_DEFAULTS)
    for key, kinds in _SAMPLING.items():
        value = generation.get(key)
        if isinstance(value, kinds) and isinstance(value, bool) == (key == "do_sample"):
            chosen[key] = value
    if chosen["temperature"] == 0:  # how some say greedy; a temperature must be above zero
        chosen["temperature"], chosen["do_sample"] = 1.0, False
    return chosen


def genai_config(
    spec: DecoderSpec,
    options: BuildOptions,
    tokens: SpecialTokenIds,
    generation: Mapping[str, Any],
    *,
    filename: str,
    head_filename: str,
) -> dict[str, Any]:
    """The content of ``genai_config.json``.

    Args:
        spec: What the decoder computes.
        options: How it is stored.
        tokens: Special token ids.
        generation: ``generation_config.json``, empty where there is none.
        filename: Name of the model file.
        head_filename: Name of the file of its head for drafts, if it has one.
    """
    model: dict[str, Any] = {
        "type": spec.model_type,
        "context_length": spec.context,
        "vocab_size": spec.vocab,
        "eos_token_id": list(tokens.eos),
        "pad_token_id": tokens.pad,
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "filename": filename,
            "head_size": spec.head_dim,
            "hidden_size": spec.hidden,
            "num_attention_heads": spec.heads,
            "num_hidden_layers": len(spec.layers),
            "num_key_value_heads": spec.kv_heads,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "past_key_names": PAST_KEY,
                "past_value_names": PAST_VALUE,
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": PRESENT_KEY,
                "present_value_names": PRESENT_VALUE,
            },
        },
    }
    if not spec.rotates_in_attention:
        model["decoder"]["inputs"]["position_ids"] = "position_ids"
    if options.include_hidden_states:
        model["decoder"]["outputs"]["hidden_states"] = HIDDEN_STATES
    if spec.mtp is not None:
        model["decoder"]["outputs"]["hidden_states"] = HIDDEN_STATES
        model["mtp"] = _mtp(model["decoder"], head_filename)
    if tokens.bos is not None:
        model["bos_token_id"] = tokens.bos
    search = {
        "diversity_penalty": 0.0,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": spec.context,
        "min_length": 0,
        "no_repeat_ngram_size": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "past_present_share_buffer": True,
        **sampling_defaults(generation),
    }
    return {"model": model, "search": search}


def _mtp(decoder: Mapping[str, Any], filename: str) -> dict[str, Any]:
    """The section of a head that is a layer like the decoder's."""
    return {
        "filename": filename,
        "num_hidden_layers": 1,
        "num_key_value_heads": decoder["num_key_value_heads"],
        "head_size": decoder["head_size"],
        "main_hidden_states": HIDDEN_STATES,
        "inputs": {**decoder["inputs"], "hidden_states": HIDDEN_STATES},
        "outputs": {**decoder["outputs"], "hidden_states": HEAD_HIDDEN_STATES},
    }
