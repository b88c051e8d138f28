"""Qwen 2 and 2.5: Llama with biases on query, key and value, and a window on later layers where switched on."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from onnxgen.builder.families.common import layers_after, read_sizes
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, NormSpec


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
