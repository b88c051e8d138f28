"""Qwen 2 and 2.5: Llama with biases on query, key and value, and a window on later layers where switched on.

MiMo is a Qwen 2 with heads for drafts.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from onnxgen.builder.families.common import layers_after, read_sizes
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, MtpSpec, NormSpec

_MTP = MtpSpec(
    prefix="model.mtp_layers.0.",
    embedding_norm="token_layernorm",
    hidden_norm="hidden_layernorm",
    projection="input_proj",
    final_norm="final_layernorm",
    hidden_first=True,
)


@family("MiMoForCausalLM")
def mimo(config: ConfigReader, names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a MiMo. Of its heads for drafts the first one counts, which is chained."""
    has_head = f"{_MTP.prefix}{_MTP.projection}.weight" in names
    return replace(qwen2(config, names), architecture="MiMoForCausalLM", mtp=_MTP if has_head else None)


@family("Qwen2ForCausalLM")
def qwen2(config: ConfigReader, names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a Qwen 2."""
    sizes = read_sizes(config)
    return DecoderSpec(
        architecture="Qwen2ForCausalLM",
        model_type="qwen2",
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab=sizes.vocab,
        context=sizes.context,
        norm=NormSpec(config.number("rms_norm_eps", 1e-6)),
        layer_norms=LayerNorms(),
        attention=AttentionSpec(scale=sizes.head_dim**-0.5, qkv_bias=True),
        mlp=MlpSpec(config.integer("intermediate_size"), config.activation("hidden_act", "silu")),
        layers=layers_after(config, sizes.layers),
        ropes=(read_rope(config, head_dim=sizes.head_dim, names=names),),
        tied=config.optional_boolean("tie_word_embeddings"),
    )
