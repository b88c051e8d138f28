"""Phi-3 and 3.5 mini: Llama with fused projections, a partial rotation and, for long contexts, LongRoPE."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from onnxgen.builder.families.common import read_sizes, uniform_layers
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, NormSpec


@family("Phi3ForCausalLM")
def phi3(config: ConfigReader, names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a Phi-3."""
    sizes = read_sizes(config)
    # Early releases called LongRoPE "su" or "yarn".
    rope = read_rope(
        config, head_dim=sizes.head_dim, aliases={"yarn": "longrope"}, original_default=4096, names=names
    )
    return DecoderSpec(
        architecture="Phi3ForCausalLM",
        model_type="phi3",
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab=sizes.vocab,
        context=sizes.context,
        norm=NormSpec(config.number("rms_norm_eps", 1e-5)),
        layer_norms=LayerNorms(),
        attention=AttentionSpec(scale=sizes.head_dim**-0.5, fused_qkv=True),
        mlp=MlpSpec(
            config.integer("intermediate_size"), config.activation("hidden_act", "silu"), fused_gate_up=True
        ),
        layers=uniform_layers(sizes.layers, window=config.optional_integer("sliding_window")),
        ropes=(rope,),
        tied=config.optional_boolean("tie_word_embeddings"),
    )
