"""Llama: the plain pre-norm decoder that most others are variations of (also SmolLM2)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from onnxgen.builder.families.common import read_sizes, uniform_layers
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, NormSpec


@family("LlamaForCausalLM")
def llama(config: ConfigReader, names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a Llama."""
    sizes = read_sizes(config)
    bias = config.boolean("attention_bias", False)
    return DecoderSpec(
        architecture="LlamaForCausalLM",
        model_type="llama",
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab=sizes.vocab,
        context=sizes.context,
        norm=NormSpec(config.number("rms_norm_eps", 1e-6)),
        layer_norms=LayerNorms(),
        attention=AttentionSpec(scale=sizes.head_dim**-0.5, qkv_bias=bias, output_bias=bias),
        mlp=MlpSpec(
            config.integer("intermediate_size"),
            config.activation("hidden_act", "silu"),
            bias=config.boolean("mlp_bias", False),
        ),
        layers=uniform_layers(sizes.layers, window=None),
        ropes=(read_rope(config, head_dim=sizes.head_dim, names=names),),
        tied=config.optional_boolean("tie_word_embeddings"),
    )
