"""Mistral: Llama with a sliding window on every layer, where the configuration has one."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from onnxgen.builder.families.common import read_sizes, uniform_layers
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, NormSpec


@family("MistralForCausalLM")
def mistral(config: ConfigReader, names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a Mistral."""
    sizes = read_sizes(config)
    # An absent key means the architecture's first window; null means none.
    window = config.optional_integer("sliding_window") if "sliding_window" in config.values else 4096
    return DecoderSpec(
        architecture="MistralForCausalLM",
        model_type="mistral",
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab=sizes.vocab,
        context=sizes.context,
        norm=NormSpec(config.number("rms_norm_eps", 1e-6)),
        layer_norms=LayerNorms(),
        attention=AttentionSpec(scale=sizes.head_dim**-0.5),
        mlp=MlpSpec(config.integer("intermediate_size"), config.activation("hidden_act", "silu")),
        layers=uniform_layers(sizes.layers, window=window),
        ropes=(read_rope(config, head_dim=sizes.head_dim, names=names),),
        tied=config.optional_boolean("tie_word_embeddings"),
    )
