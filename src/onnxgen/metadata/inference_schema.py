"""Sections of ``inference_metadata.yaml`` that describe a decoder, as dataclasses.

Names and meanings are those of the ONNX inference metadata standard, schema version ``v1``. Sections that
are typed ``Any`` are known by name only: see ``inference_metadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from onnxgen.metadata.document import AtLeast, Place, ReadBy, read_int64

Count = Annotated[int, AtLeast(1)]
Size = Annotated[int, AtLeast(0)]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attention:
    """``model.attention``: facts about the attention of all layers."""

    type: str
    num_attention_heads: Count | None = None
    num_kv_heads: Count | None = None
    head_dim: Count | None = None
    sliding_window: Count | None = None
    sink_tokens: Size | None = None
    key_sequence_lengths: Any = None
    fallback_behavior: str | None = None


def _layout(value: object, place: Place) -> object:
    """A layout by name stays a string; a description by strides is kept as it is."""
    if isinstance(value, str) and value not in ("head_major_bnsh", "seq_major_bsnh"):
        raise place.error(f"is {value!r}; known are head_major_bnsh and seq_major_bsnh")
    return value


@dataclass(frozen=True, slots=True)
class ModelIo:
    """``model.io``: names of the decoder's inputs and outputs. Caches are named layer by layer."""

    token_input: str | None = None
    inputs_embeds_input: str | None = None
    attention_mask_input: str | None = None
    position_ids_input: str | None = None
    encoder_hidden_states_input: str | None = None
    audio_features_input: str | None = None
    logits_output: str | None = None
    hidden_output: str | None = None
    kv_inputs: Names | None = None
    kv_outputs: Names | None = None
    cross_kv_inputs: Names | None = None
    cross_kv_outputs: Names | None = None
    kv_layout: Annotated[Any, ReadBy(_layout)] = "head_major_bnsh"
    kv_ownership: Literal["owned", "shared"] = "owned"
    aliasing: Literal["permitted", "required", "forbidden"] = "permitted"
    sequence_source: Literal["token_ids", "inputs_embeds"] = "token_ids"
    optional_inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state_pairs: tuple[Any, ...] | None = None
    static_cache: Any = None


@dataclass(frozen=True, slots=True)
class ChunkedPrefill:
    """``model.runtime_configurable.chunked_prefill``."""

    chunk_size: Count | None = None


@dataclass(frozen=True, slots=True)
class RuntimeConfigurable:
    """``model.runtime_configurable``: what a runtime may do with the model."""

    chunked_prefill: ChunkedPrefill | None = None
    continuous_batching: bool | None = None
    prefix_cache: bool | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """The ``model`` section. ``mixture_of_experts`` states facts about the graph, which runs as it is."""

    attention: Attention | None = None
    io: ModelIo = field(default_factory=ModelIo)
    max_sequence_length: Count | None = None
    vocab_size: Count | None = None
    runtime_configurable: RuntimeConfigurable | None = None
    mixture_of_experts: Any = None
    sharding: Any = None


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """``generation.defaults``; what is not given is None."""

    do_sample: bool | None = None
    early_stopping: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    num_beams: int | None = None
    num_return_sequences: int | None = None
    length_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    diversity_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """The ``generation`` section."""

    defaults: GenerationDefaults = field(default_factory=GenerationDefaults)
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TokenizerArtifact:
    """A file of the tokenizer."""

    location: str


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token with a meaning."""

    content: str
    id: Size


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """``package.tokenizer``; ``special_tokens`` has names such as ``eos_token``."""

    algorithm: str
    vocab_size: Count
    artifacts: tuple[TokenizerArtifact, ...] = ()
    byte_level: bool = False
    special_tokens: Mapping[str, SpecialToken] = field(default_factory=dict[str, SpecialToken])


@dataclass(frozen=True, slots=True)
class ConstraintLanguage:
    """A grammar language that the package brings a component for."""

    component: str
    dialect: str
    version: str


@dataclass(frozen=True, slots=True)
class Package:
    """The ``package`` section."""

    tokenizer: TokenizerFacts | None = None
    constraint_languages: tuple[ConstraintLanguage, ...] = ()


@dataclass(frozen=True, slots=True)
class QuantizationOverride:
    """Other precision for some layers or one component."""

    precision: str
    component: str | None = None
    layers: tuple[Size, ...] | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """The ``quantization`` section: what was intended; the graph has what was done."""

    default: str | None = None
    overrides: tuple[QuantizationOverride, ...] | None = None


@dataclass(frozen=True, slots=True)
class HardwareRequirements:
    """The ``hardware_requirements`` section."""

    required_dtypes: Names | None = None
    beneficial_dtypes: Names | None = None
    min_memory_gb: float | None = None
    kv_cache_memory_per_1k_tokens_mb: float | None = None
    min_tp_degree: Annotated[int, ReadBy(read_int64), AtLeast(1)] | None = None
    supports_tensor_parallel: bool | None = None


@dataclass(frozen=True, slots=True)
class InferenceMetadata:
    """A whole ``inference_metadata.yaml``, as far as decoders go."""

    model: Model
    schema_version: Literal["v1"] | None = None
    generation: Generation = field(default_factory=Generation)
    package: Package = field(default_factory=Package)
    quantization: Quantization | None = None
    hardware_requirements: HardwareRequirements | None = None
    required_capabilities: Names = ()
    pipeline: Any = None
    adapters: Any = None
    speculative: Any = None
    preprocessing: Any = None
    profiles: Mapping[str, Any] = field(default_factory=dict[str, Any])
