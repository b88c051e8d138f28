"""Gemma 3, text: norms on both sides, windowed layers with a rotary base of their own, scaled embeddings."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet

from onnxgen.builder.families.common import FULL, SLIDING, layers_by_type, read_sizes
from onnxgen.builder.families.reading import ConfigReader
from onnxgen.builder.families.registry import family
from onnxgen.builder.families.rope import read_rope
from onnxgen.builder.spec import AttentionSpec, DecoderSpec, LayerNorms, MlpSpec, NormSpec
from onnxgen.errors import CheckpointError


@family("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
def gemma3(config: ConfigReader, _names: AbstractSet[str]) -> DecoderSpec:
    """Read the configuration of a Gemma 3, or of the decoder inside a multimodal one."""
    text = config.section("text_config") or config
    sizes = read_sizes(text, head_dim=256)
    if text.boolean("use_bidirectional_attention", False):
        raise CheckpointError(
            f"{text.where}: use_bidirectional_attention is not supported; this builds causal decoders"
        )
    pattern = text.integer("sliding_window_pattern", 6)
    types = text.words("layer_types", sizes.layers) or tuple(
        SLIDING if (index + 1) % pattern else FULL for index in range(sizes.layers)
    )
    tied = text.optional_boolean("tie_word_embeddings")
    if tied is None:
        tied = config.optional_boolean("tie_word_embeddings")
    bias = text.boolean("attention_bias", False)
    return DecoderSpec(
        architecture="Gemma3ForCausalLM",
        model_type="gemma3_text",
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab=sizes.vocab,
        context=sizes.context,
        norm=NormSpec(text.number("rms_norm_eps", 1e-6), weight_offset=1.0),
        layer_norms=LayerNorms(
            attention_in="input_layernorm",
            attention_out="post_attention_layernorm",
            mlp_in="pre_feedforward_layernorm",
            mlp_out="post_feedforward_layernorm",
        ),
        attention=AttentionSpec(
            scale=text.number("query_pre_attn_scalar", 256) ** -0.5,
            softcap=text.optional_number("attn_logit_softcapping"),
            qkv_bias=bias,
            output_bias=bias,
            qk_norm=True,
        ),
        mlp=MlpSpec(
            text.integer("intermediate_size"), text.activation("hidden_activation", "gelu_pytorch_tanh")
        ),
        layers=layers_by_type(text, types, window=text.integer("sliding_window", 4096), sliding_rope=1),
        ropes=(
            read_rope(text, head_dim=sizes.head_dim, theta=1e6, layer_type=FULL),
            read_rope(
                text,
                head_dim=sizes.head_dim,
                theta=1e4,
                theta_key="rope_local_base_freq",
                layer_type=SLIDING,
                scaled=False,
            ),
        ),
        tied=tied,
        embedding_scale=math.sqrt(sizes.hidden),
        logit_softcap=text.optional_number("final_logit_softcapping"),
    )
