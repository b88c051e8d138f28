"""`DecoderSpec`: everything an emitter must know about a decoder, and nothing about where it came from.

A family function reads a configuration and says what the decoder computes; the emitter turns that into a
graph. Both sides meet here only. Weight names are those of `onnxgen.builder.weights`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Activation(Enum):
    """The nonlinearity between the two halves of a gated MLP."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"
    GELU = "gelu"


class RopeKind(Enum):
    """How a rotary embedding stretches its frequencies."""

    DEFAULT = "default"
    LINEAR = "linear"
    DYNAMIC = "dynamic"
    LLAMA3 = "llama3"
    YARN = "yarn"
    LONGROPE = "longrope"


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Numbers of YaRN (arXiv 2309.00071).

    Attributes:
        original_context: Context the model was trained with, in tokens.
        beta_fast: Rotations above which a dimension keeps its frequency.
        beta_slow: Rotations below which a dimension is fully interpolated.
        truncate: Whether the ramp's ends are rounded to whole dimensions.
    """

    original_context: int
    beta_fast: float
    beta_slow: float
    truncate: bool


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Numbers of Llama 3.1's frequency rescaling."""

    original_context: int
    low_freq_factor: float
    high_freq_factor: float


@dataclass(frozen=True, slots=True)
class LongRopeScaling:
    """Numbers of LongRoPE (arXiv 2402.13753).

    Attributes:
        original_context: Longest sequence, in tokens, that uses the short factors.
        short_factors: One divisor for each rotated frequency, for short sequences.
        long_factors: The same for sequences longer than ``original_context``.
        short_magnitude: Multiplies the short cosines and sines.
        long_magnitude: Multiplies the long ones.
    """

    original_context: int
    short_factors: tuple[float, ...]
    long_factors: tuple[float, ...]
    short_magnitude: float
    long_magnitude: float


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """One rotary embedding. Layers that share a table share the value.

    Attributes:
        kind: How frequencies are stretched.
        theta: Base of the frequencies.
        rotary_dim: Leading dimensions of a head that are rotated; even.
        factor: Stretch of linear, llama3 and yarn scaling; 1 where there is none.
        magnitude: Multiplies cosines and sines (yarn's attention factor).
        llama3: Numbers of that kind, or None.
        yarn: Numbers of that kind, or None.
        longrope: Numbers of that kind, or None.
        factors_tensor: Name of a stored tensor of one divisor for each frequency, or None.
    """

    kind: RopeKind
    theta: float
    rotary_dim: int
    factor: float = 1.0
    magnitude: float = 1.0
    llama3: Llama3Scaling | None = None
    yarn: YarnScaling | None = None
    longrope: LongRopeScaling | None = None
    factors_tensor: str | None = None


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What differs from layer to layer.

    Attributes:
        rope: Index into `DecoderSpec.ropes`.
        window: Tokens a query sees, itself included; None for all of them.
    """

    rope: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Attention features that all layers share.

    Attributes:
        scale: Multiplies the scores.
        softcap: Scores pass ``softcap * tanh(scores / softcap)``; None for no cap.
        qkv_bias: Whether the query, key and value projections have biases.
        output_bias: Whether the output projection has one.
        qk_norm: Whether each query and key head passes an RMS norm before the rotation.
        fused_qkv: Whether the checkpoint stores one matrix ``qkv_proj`` for the three.
    """

    scale: float
    softcap: float | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    fused_qkv: bool = False


@dataclass(frozen=True, slots=True)
class NormSpec:
    """RMS norms of the decoder.

    Attributes:
        epsilon: Added to the mean square.
        weight_offset: Added to the stored weights (1 where they are stored around zero).
    """

    epsilon: float
    weight_offset: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerNorms:
    """Names of the norms of a layer, below ``model.layers.N``.

    Attributes:
        attention_in: Before attention.
        attention_out: After attention, before its residual sum; None for no norm.
        mlp_in: Before the MLP.
        mlp_out: After the MLP, before its residual sum; None for no norm.
    """

    attention_in: str = "input_layernorm"
    attention_out: str | None = None
    mlp_in: str = "post_attention_layernorm"
    mlp_out: str | None = None


@dataclass(frozen=True, slots=True)
class MlpSpec:
    """The gated MLP: ``down(activation(gate(x)) * up(x))``.

    Attributes:
        intermediate: Width between the projections.
        activation: Applied to the gate.
        bias: Whether all three projections have biases.
        fused_gate_up: Whether the checkpoint stores one matrix ``gate_up_proj``, the gate first.
    """

    intermediate: int
    activation: Activation
    bias: bool = False
    fused_gate_up: bool = False


@dataclass(frozen=True, slots=True)
class MtpSpec:
    """A head for drafts that a checkpoint has: a layer of the decoder's own kind over token and hidden state.

    ``layer(projection(concat(hidden_norm(h), embedding_norm(embed(token)))))``, then a norm of its own and the decoder's
    output head (https://arxiv.org/abs/2505.07608).

    Attributes:
        prefix: What stands before all its tensor names, a dot at its end. The layer's are those of a decoder's layer.
        embedding_norm: Name of the norm of the embedding.
        hidden_norm: Name of the norm of the hidden state.
        projection: Name of the matrix ``[hidden, 2 * hidden]`` that joins them, without a bias.
        final_norm: Name of the norm behind the layer.
        hidden_first: Whether the hidden state stands before the embedding.
    """

    prefix: str
    embedding_norm: str
    hidden_norm: str
    projection: str
    final_norm: str
    hidden_first: bool


EMBEDDING = "model.embed_tokens.weight"
"""Name of the embedding."""

HEAD = "lm_head.weight"
"""Name of the output head, where it is not the embedding."""


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """A decoder-only transformer.

    Attributes:
        architecture: Name the family is registered by, for messages.
        model_type: ``model.type`` that onnxruntime-genai knows it by.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key and value heads; divides ``heads``.
        head_dim: Width of a head.
        vocab: Rows of the embedding, width of the logits.
        context: Longest sequence in tokens.
        norm: How norms compute.
        layer_norms: Where they stand.
        attention: Features of attention.
        mlp: The MLP.
        layers: One entry for each layer.
        ropes: Distinct rotary embeddings.
        tied: Whether the configuration says that the head is the embedding; None where it does not say.
        embedding_scale: Multiplies embeddings; None for no scaling.
        logit_softcap: Logits pass ``softcap * tanh(logits / softcap)``; None for no cap.
        mtp: A head for drafts beside the decoder; None: the checkpoint has none.
    """

    architecture: str
    model_type: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    norm: NormSpec
    layer_norms: LayerNorms
    attention: AttentionSpec
    mlp: MlpSpec
    layers: tuple[LayerSpec, ...]
    ropes: tuple[RopeSpec, ...]
    tied: bool | None
    embedding_scale: float | None = None
    logit_softcap: float | None = None
    mtp: MtpSpec | None = None

    @property
    def query_width(self) -> int:
        """Columns of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of all key heads together."""
        return self.kv_heads * self.head_dim

    @property
    def rope_switch_length(self) -> int | None:
        """Longest sequence before rotary factors change (LongRoPE), in tokens; None where they never do."""
        lengths = [
            rope.longrope.original_context
            for rope in self.ropes
            if rope.longrope is not None and rope.longrope.original_context < self.context
        ]
        assert len(lengths) <= 1
        return lengths[0] if lengths else None

    @property
    def rotates_in_attention(self) -> bool:
        """Whether ``GroupQueryAttention`` can rotate by itself: it takes multiples of 16 dimensions only.

        Otherwise queries and keys are rotated before it, by ``position_ids``, a further graph input.
        """
        return self.head_dim % 16 == 0 and all(rope.rotary_dim % 16 == 0 for rope in self.ropes)
