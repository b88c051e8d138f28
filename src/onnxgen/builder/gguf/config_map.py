"""GGUF metadata as a Hugging Face configuration, one function for each architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnxgen.builder.gguf.keys import ArchitectureKeys
from onnxgen.builder.gguf.reader import GgufFile
from onnxgen.builder.gguf.rope import rope_config
from onnxgen.errors import CheckpointError, UnsupportedArchitectureError
from onnxgen.foundations.suggest import did_you_mean

_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
# The pattern of Gemma 3's windowed layers and their base, which its converter leaves out.
_GEMMA3_PATTERN, _GEMMA3_LOCAL_THETA = 6, 10000.0
# Gemma 3 27B, known by its depth, is the one that scales by width instead of head size.
_GEMMA3_27B_LAYERS = 62


def read_config(file: GgufFile) -> dict[str, Any]:
    """The configuration of the model in a GGUF file, with the keys of ``config.json``.

    Raises:
        UnsupportedArchitectureError: ``general.architecture`` is not known, or uses experts.
        CheckpointError: A key is missing, of another type or out of range.
    """
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise CheckpointError(f"{file.path}: metadata key 'general.architecture' is missing")
    if name not in ARCHITECTURES:
        raise UnsupportedArchitectureError(
            f"{file.path}: GGUF architecture {name!r} is not supported{did_you_mean(name, ARCHITECTURES)} "
            f"(known: {', '.join(ARCHITECTURES)})"
        )
    keys = ArchitectureKeys(file.path, name, file.metadata)
    if keys.optional_integer("expert_count"):
        raise UnsupportedArchitectureError(
            f"{file.path}: a mixture of {keys.integer('expert_count')} experts is not supported; "
            f"dense models of {', '.join(ARCHITECTURES)} are"
        )
    return ARCHITECTURES[name](file, keys)


def _common(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    hidden, heads = keys.positive("embedding_length"), keys.positive("attention.head_count")
    head_dim = keys.optional_integer("attention.key_length") or hidden // heads
    if not head_dim:
        raise CheckpointError(f"{file.path}: {heads} heads do not fit an embedding_length of {hidden}")
    value_dim = keys.optional_integer("attention.value_length") or head_dim
    if value_dim != head_dim:
        raise CheckpointError(
            f"{file.path}: attention.key_length {head_dim} and attention.value_length {value_dim} differ, "
            "which is not supported"
        )
    return {
        "hidden_size": hidden,
        "intermediate_size": keys.integer("feed_forward_length"),
        "num_hidden_layers": _num_layers(file, keys),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.optional_integer("attention.head_count_kv") or heads,
        "head_dim": head_dim,
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": keys.integer("context_length"),
        "vocab_size": _vocab_size(file, hidden),
        "tie_word_embeddings": _HEAD not in file.tensors,
        **rope_config(file, keys, head_dim=head_dim),
        **_special_tokens(keys),
    }


def _num_layers(file: GgufFile, keys: ArchitectureKeys) -> int:
    layers = keys.positive("block_count")
    if layers > len(file.tensors):
        raise CheckpointError(
            f"{file.path}: {keys.architecture}.block_count is {layers}, but there are only "
            f"{len(file.tensors)} tensors; the file is incomplete or broken"
        )
    return layers


def _vocab_size(file: GgufFile, hidden: int) -> int:
    """Rows of the embedding: some files state another size, and the rows are what there is."""
    embedding = file.tensors.get(_EMBEDDING)
    if embedding is None:
        raise CheckpointError(
            f"{file.path}: tensor {_EMBEDDING!r} is missing; this is not a complete language model"
        )
    if len(embedding.shape) != 2 or embedding.shape[1] != hidden:
        raise CheckpointError(
            f"{file.path}: tensor {_EMBEDDING!r} has shape {list(embedding.shape)}, expected rows of "
            f"embedding_length {hidden}"
        )
    return embedding.shape[0]


def _special_tokens(keys: ArchitectureKeys) -> dict[str, Any]:
    """Ids as in ``config.json``; what ends a turn or a message ends generation, too."""
    tokens = ArchitectureKeys(keys.path, "tokenizer.ggml", keys.metadata)
    stored = [tokens.optional_integer(f"{name}_token_id") for name in ("eos", "eot", "eom")]
    ends = list(dict.fromkeys(token for token in stored if token is not None))
    return {
        "bos_token_id": tokens.optional_integer("bos_token_id"),
        "eos_token_id": ends if len(ends) > 1 else (ends[0] if ends else None),
        "pad_token_id": tokens.optional_integer("padding_token_id"),
    }


def _llama(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    window = keys.optional_integer("attention.sliding_window")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in file.tensors,
        **_common(file, keys),
    }
    if window:  # Mistral is stored as llama, and only it has a window
        config |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": window}
    return config


def _qwen2(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "use_sliding_window": False,
        **_common(file, keys),
    }


def _qwen3(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "use_sliding_window": False,
        **_common(file, keys),
    }


def _phi3(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    return {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "hidden_act": "silu",
        "sliding_window": keys.optional_integer("attention.sliding_window") or None,
        **_common(file, keys),
    }


def _gemma3(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    common = _common(file, keys)
    layers, head_dim = common["num_hidden_layers"], common["head_dim"]
    scale = keys.optional_number("attention.scale")
    if scale:
        scalar: float = 1 / scale**2
    elif layers == _GEMMA3_27B_LAYERS:
        scalar = common["hidden_size"] // common["num_attention_heads"]
    else:
        scalar = head_dim
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "query_pre_attn_scalar": scalar,
        "sliding_window": keys.integer("attention.sliding_window"),
        "layer_types": _gemma3_layer_types(keys, layers),
        "rope_local_base_freq": keys.optional_number("rope.freq_base_swa") or _GEMMA3_LOCAL_THETA,
        "attn_logit_softcapping": keys.optional_number("attn_logit_softcapping"),
        "final_logit_softcapping": keys.optional_number("final_logit_softcapping"),
        **common,
    }


def _gemma3_layer_types(keys: ArchitectureKeys, layers: int) -> list[str]:
    key = f"{keys.architecture}.attention.sliding_window_pattern"
    stored = keys.metadata.get(key)
    if isinstance(stored, np.ndarray | list):
        windowed = [bool(value) for value in stored]
        if len(windowed) != layers:
            raise CheckpointError(f"{keys.path}: {key} has {len(windowed)} values for {layers} layers")
    else:
        pattern = keys.optional_integer("attention.sliding_window_pattern") or _GEMMA3_PATTERN
        windowed = [(index + 1) % pattern != 0 for index in range(layers)]
    return ["sliding_attention" if window else "full_attention" for window in windowed]


ARCHITECTURES: Mapping[str, Callable[[GgufFile, ArchitectureKeys], dict[str, Any]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi3": _phi3,
    "gemma3": _gemma3,
}
"""What reads the metadata of each known ``general.architecture``."""
