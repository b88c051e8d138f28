from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gguf_by_hand import tiny_decoder
from onnxgen.builder.gguf.config_map import ARCHITECTURES
from onnxgen.builder.gguf.tensor_names import map_tensors, rotary_row_order
from onnxgen.errors import CheckpointError


def mapped(architecture: str, stored: list[str]):
    return map_tensors(stored, architecture=architecture, heads=4, kv_heads=2, path=Path("m.gguf"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_names_for_what_converters_write(architecture):
    _, weights = tiny_decoder(architecture, np.random.default_rng(0), layers=2)
    names = mapped(architecture, [*weights, "output.weight"])
    assert len(names) == len(weights) + 1
    assert {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"} <= set(names)
    layer = {name.removeprefix("model.layers.1.") for name in names if name.startswith("model.layers.1.")}
    expected = {"input_layernorm.weight", "post_attention_layernorm.weight", "mlp.down_proj.weight"}
    expected |= {f"self_attn.{part}.weight" for part in ("o_proj",)}
    if architecture == "phi3":
        expected |= {"self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight"}
    else:
        expected |= {f"self_attn.{part}_proj.weight" for part in "qkv"}
        expected |= {"mlp.gate_proj.weight", "mlp.up_proj.weight"}
    if architecture == "qwen2":
        expected |= {f"self_attn.{part}_proj.bias" for part in "qkv"}
    if architecture in ("qwen3", "gemma3"):
        expected |= {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}
    if architecture == "gemma3":
        expected |= {"pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"}
    assert layer == expected


def test_norms_of_gemma3_are_not_mixed_up():
    names = mapped("gemma3", ["blk.0.ffn_norm.weight", "blk.0.post_attention_norm.weight"])
    assert {name: tensor.stored for name, tensor in names.items()} == {
        "model.layers.0.pre_feedforward_layernorm.weight": "blk.0.ffn_norm.weight",
        "model.layers.0.post_attention_layernorm.weight": "blk.0.post_attention_norm.weight",
    }
    assert all(tensor.offset == 1.0 for tensor in names.values())


def test_only_llama_interleaves_rows_and_only_gemma3_shifts_norms():
    stored = ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_q.bias"]
    heads = {tensor.stored: tensor.rotary_heads for tensor in mapped("llama", stored).values()}
    assert list(heads.values()) == [4, 2, 0, 4]
    for architecture in ("qwen2", "qwen3", "gemma3"):
        assert all(tensor.rotary_heads == 0 for tensor in mapped(architecture, stored).values())
    assert mapped("llama", ["output_norm.weight"])["model.norm.weight"].offset == 0
    assert mapped("gemma3", ["output_norm.weight"])["model.norm.weight"].offset == 1
    assert mapped("gemma3", ["token_embd.weight"])["model.embed_tokens.weight"].offset == 0


def test_what_only_describes_positions_is_no_weight():
    stored = [
        "rope_factors_long.weight",
        "rope_factors_short.weight",
        "blk.3.attn_rot_embd",
        "rope_freqs.weight",
    ]
    assert list(mapped("llama", stored)) == ["rope_freqs.weight"]


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.attn_qkv.weight",
        "blk.0.ffn_gate_exps.weight",
        "blk.0.attn_q.scale",
        "v.patch_embd.weight",
        "token_embd",
        "other.weight",
    ],
)
def test_a_tensor_that_is_not_known_is_refused_by_name(name):
    with pytest.raises(CheckpointError, match=f"m.gguf: tensor '{name}' .* architecture 'llama'"):
        mapped("llama", [name])


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 2), (3, 8), (4, 64)])
def test_row_order_undoes_the_converter(heads, head_dim):
    rows = heads * head_dim
    original = np.arange(rows * 3).reshape(rows, 3)
    # What the converter does: halves of a head become neighbours.
    stored = original.reshape(heads, 2, head_dim // 2, 3).swapaxes(1, 2).reshape(rows, 3)
    assert np.array_equal(stored[rotary_row_order(rows, heads)], original)
