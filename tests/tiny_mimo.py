"""Tiny checkpoints of the MiMo kind, which have a head for drafts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

import tiny_tokenizer
from safetensors_by_hand import write_sharded
from tiny_decoders import Sizes, TinyDecoder
from tiny_heads import TinyHead

VOCAB = tiny_tokenizer.VOCAB_SIZE
SIZES = Sizes(vocab=VOCAB, context=64)
LAYER = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip


def layer_tensors(decoder, index, prefix):
    w = decoder.weights
    tensors = {f"{prefix}{name}.weight": w[f"{index}.{key}"].T for key, name in LAYER.items()}
    for key in "qkv":
        tensors[f"{prefix}{LAYER[key]}.bias"] = np.zeros(w[f"{index}.{key}"].shape[1], np.float32)
    tensors[f"{prefix}input_layernorm.weight"] = w[f"{index}.norm1"]
    tensors[f"{prefix}post_attention_layernorm.weight"] = w[f"{index}.norm2"]
    return tensors


def write_mimo(folder, target, head, *, without=()):
    """A checkpoint of the MiMo kind, which writes the hidden state before the embedding."""
    w, h, size = target.weights, head.decoder.weights, SIZES.hidden
    prefix = "model.mtp_layers.0."
    tensors = {
        "model.embed_tokens.weight": w["embed"],
        "model.norm.weight": w["norm"],
        "lm_head.weight": w["head"].T,
        f"{prefix}token_layernorm.weight": h["embed_norm"],
        f"{prefix}hidden_layernorm.weight": h["hidden_norm"],
        f"{prefix}input_proj.weight": np.concatenate([h["fc"][size:], h["fc"][:size]]).T,
        f"{prefix}final_layernorm.weight": h["norm"],
        **layer_tensors(head.decoder, 0, prefix),
    }
    for index in range(SIZES.layers):
        tensors |= layer_tensors(target, index, f"model.layers.{index}.")
    folder.mkdir(parents=True)
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "mimo",
        "vocab_size": VOCAB,
        "hidden_size": size,
        "head_dim": SIZES.head_dim,
        "intermediate_size": SIZES.ffn,
        "num_hidden_layers": SIZES.layers,
        "num_attention_heads": SIZES.heads,
        "num_key_value_heads": SIZES.kv_heads,
        "max_position_embeddings": SIZES.context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 100.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "num_nextn_predict_layers": 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": tiny_tokenizer.EOS}))
    kept = {name: np.ascontiguousarray(t) for name, t in tensors.items() if name not in without}
    write_sharded(folder, kept, "float32", 1)
    tiny_tokenizer.write_tokenizer(folder)
    return folder


def pair(seed):
    """A decoder and a head that shares its embedding and its output matrix."""
    target, head = TinyDecoder(SIZES, seed), TinyHead(replace(SIZES, layers=1), seed + 1)
    for name in ("embed", "head"):
        head.decoder.weights[name] = target.weights[name]
    return target, head


def agreeing_pair(seed):
    """A decoder that is sure of its best tokens, and a head that guesses every one of them."""
    target, head = pair(seed)
    for decoder in (target, head.decoder):  # what follows depends on the last token only
        decoder.weights["head"] = 8 * decoder.weights["head"]
        for key in decoder.weights:
            if key.endswith((".o", ".down")):
                decoder.weights[key] = np.zeros_like(decoder.weights[key])
    eye = np.eye(SIZES.hidden, dtype=np.float32)
    head.decoder.weights |= {
        "norm": target.weights["norm"],
        "fc": np.concatenate([eye, np.zeros_like(eye)]),
        "embed_norm": np.ones(SIZES.hidden, np.float32),
    }
    return target, head
