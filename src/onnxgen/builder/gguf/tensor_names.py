"""GGUF tensor names as Hugging Face's, and what its converters did to the values on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onnxgen.builder.gguf.rope import FREQUENCY_FACTORS, LONG_FACTORS, SHORT_FACTORS
from onnxgen.errors import CheckpointError

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_DENSE = {**_ATTENTION, **_MLP, "ffn_norm": "post_attention_layernorm"}

_LAYER_NAMES: Mapping[str, Mapping[str, str]] = {
    "llama": _DENSE,
    "qwen2": _DENSE,
    "qwen3": {**_DENSE, **_QK_NORM},
    "phi3": {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.qkv_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.gate_up_proj",
        "ffn_down": "mlp.down_proj",
    },
    "gemma3": {
        **_ATTENTION,
        **_MLP,
        **_QK_NORM,
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}
# Read into the configuration, or derived from it.
_NOT_WEIGHTS = re.compile(
    rf"{re.escape(LONG_FACTORS)}|{re.escape(SHORT_FACTORS)}|blk\.\d+\.(attn_rot_embd|rope_freqs)(\.weight)?"
)
_LAYER = re.compile(r"blk\.(\d+)\.([a-z0-9_]+)\.(weight|bias)")
_OTHER = re.compile(r"([a-z_]+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """Where a weight is in the file, and how to undo what the converter did to it.

    Attributes:
        stored: Its name in the file.
        rotary_heads: Heads whose rows are interleaved for rotation in neighbouring pairs; 0 for none.
        offset: What the converter added to the values.
    """

    stored: str
    rotary_heads: int = 0
    offset: float = 0.0


def map_tensors(
    stored: list[str], *, architecture: str, heads: int, kv_heads: int, path: Path
) -> dict[str, MappedTensor]:
    """Hugging Face names of a file's tensors.

    Raises:
        CheckpointError: A tensor that the architecture does not have; leaving it out would change the model.
    """
    layer_names = _LAYER_NAMES[architecture]
    mapped: dict[str, MappedTensor] = {}
    for name in stored:
        if _NOT_WEIGHTS.fullmatch(name):
            continue
        target = _canonical(name, layer_names)
        if target is None:
            raise CheckpointError(
                f"{path}: tensor {name!r} is not one that architecture {architecture!r} is known to have; "
                "the model it belongs to is not supported"
            )
        mapped[target] = MappedTensor(
            stored=name,
            rotary_heads=_rotary_heads(target, heads, kv_heads) if architecture == "llama" else 0,
            offset=1.0 if architecture == "gemma3" and target.endswith("norm.weight") else 0.0,
        )
    return mapped


def rotary_row_order(rows: int, heads: int) -> npt.NDArray[np.intp]:
    """Rows of a llama file's query or key matrix in the order that Hugging Face has them.

    The file rotates rows 2i and 2i+1 of a head together; Hugging Face rotates i and i + half.
    """
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).ravel()


def _canonical(name: str, layer_names: Mapping[str, str]) -> str | None:
    if name == FREQUENCY_FACTORS:
        return name
    if layer := _LAYER.fullmatch(name):
        target = layer_names.get(layer[2])
        return target and f"model.layers.{int(layer[1])}.{target}.{layer[3]}"
    if other := _OTHER.fullmatch(name):
        target = _TOP.get(other[1])
        return target and f"{target}.{other[2]}"
    return None


def _rotary_heads(target: str, heads: int, kv_heads: int) -> int:
    if ".self_attn.q_proj." in target:
        return heads
    return kv_heads if ".self_attn.k_proj." in target else 0
