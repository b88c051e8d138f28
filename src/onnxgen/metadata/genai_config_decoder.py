"""The ``decoder`` section of ``genai_config.json`` (also ``draft``): sizes, names and pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, TypeVar, cast

from onnxgen.metadata.document import (
    AtLeast,
    Place,
    ReadBy,
    read_document,
    read_int64,
    read_object,
    relative_file,
)
from onnxgen.metadata.genai_config_session import Session, SessionOptions

T = TypeVar("T")

FileName = Annotated[str, relative_file]
Count = Annotated[int, AtLeast(1)]
Size = Annotated[int, AtLeast(0)]
Sizes = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Graph input names by role; ``%d`` stands for the layer. Empty: no such input."""

    input_ids: str = "input_ids"
    inputs_embeds: str = "inputs_embeds"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"
    past_names: str = ""
    past_key_scale_names: str = ""
    past_value_scale_names: str = ""
    cross_past_key_names: str = ""
    cross_past_value_names: str = ""
    past_key_values_length: str = "past_key_values_length"
    past_sequence_length: str = "past_sequence_length"
    current_sequence_length: str = "current_sequence_length"
    total_sequence_length: str = "total_sequence_length"
    cache_indirection: str = "cache_indirection"
    encoder_hidden_states: str = "encoder_hidden_states"
    encoder_attention_mask: str = "encoder_attention_mask"
    rnn_states_prev: str = "rnn_states_prev"
    cumulative_sequence_lengths: str = "cumulative_sequence_lengths"
    past_sequence_lengths: str = "past_sequence_lengths"
    block_table: str = "block_table"
    block_table_windowed: str = "block_table_windowed"
    attention_metadata: str = "attention_metadata"
    logits_indices: str = ""
    past_conv_names: str = "past_conv.%d"
    past_recurrent_names: str = ""
    state_update_capture_count: str = ""
    state_update_active: str = ""
    hidden_states: str = ""
    targets: str = ""
    targets_length: str = ""
    lstm_hidden_state: str = ""
    lstm_cell_state: str = ""
    per_layer_inputs: str = ""


@dataclass(frozen=True, slots=True)
class DecoderOutputs:
    """Graph output names by role; ``%d`` stands for the layer. Empty: no such output."""

    logits: str = "logits"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"
    present_names: str = ""
    present_key_scale_names: str = ""
    present_value_scale_names: str = ""
    output_cross_qk_names: str = "output_cross_qk_%d"
    rnn_states: str = "rnn_states"
    present_conv_names: str = "present_conv.%d"
    present_recurrent_names: str = ""
    state_update_conv_value_names: str = ""
    state_update_recurrent_capsule_names: str = ""
    hidden_states: str = ""
    aux_hidden_states: str = ""
    outputs: str = ""
    outputs_length: str = ""
    lstm_hidden_state: str = ""
    lstm_cell_state: str = ""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """How caches and inputs of window attention are kept.

    Attributes:
        window_size: Window in tokens.
        pad_value: Filler for positions without a token.
        alignment: At which end of the window the tokens stand.
        slide_key_value_cache: The cache slides with the window.
        slide_inputs: The inputs slide with the window.
        layers: Layers with window attention; empty means all.
        cache_slack: Positions kept beyond the window; 0 takes the provider's own choice.
    """

    window_size: Size = 0
    pad_value: int = 0
    alignment: Literal["left", "right"] = "right"
    slide_key_value_cache: bool = True
    slide_inputs: bool = True
    layers: Sizes = ()
    cache_slack: Size = 0


@dataclass(frozen=True, slots=True)
class SharedInitializer:
    """Weights in a data file that several sessions map: offset and length in bytes, written as strings."""

    name: str
    data_file: FileName
    offset: str = "0"
    length: str = "0"
    data_type: int = 0
    shape: tuple[Annotated[int, ReadBy(read_int64)], ...] = ()


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """How a group's recurrent state can be taken back after rejected drafts."""

    enabled: bool = False
    capacity: Size = 0
    key_head_count: Size = 0


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Layers that keep state of one kind."""

    kind: Literal["paged_kv", "fixed_conv", "fixed_recurrent"]
    layer_ids: Sizes
    state_update: StateUpdate | None = None


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One graph of a decoder that is split into several.

    Attributes:
        filename: The ONNX file.
        session_options: Its session options.
        run_options: Its run options.
        inputs: Graph input names.
        outputs: Graph output names.
        output_names_forwarder: Graph output to the later stages' input that it feeds.
        run_on_prompt: Takes part in prefill.
        run_on_token_gen: Takes part in decode.
        is_lm_head: Makes the logits.
        inherit_session_options: Starts from the decoder's session options.
        reset_session_idx: Stage whose session is freed while this one runs; -1 for none.
    """

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Mapping[str, str] | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    output_names_forwarder: Mapping[str, str] = field(default_factory=dict[str, str])
    run_on_prompt: bool = True
    run_on_token_gen: bool = True
    is_lm_head: bool = False
    inherit_session_options: bool = False
    reset_session_idx: Annotated[int, AtLeast(-1)] = -1


def read_named(schema: type[T], value: object, place: Place) -> tuple[tuple[str, T], ...]:
    """Read an array of ``{name: entry}``, or one object of them, in order."""
    if isinstance(value, list):
        groups = [(item, place.item(i)) for i, item in enumerate(cast("list[object]", value))]
    else:
        groups = [(value, place)]
    return tuple(
        (name, read_document(schema, entry, at.key(name)))
        for group, at in groups
        for name, entry in read_object(group, at).items()
    )


def _read_stages(value: object, place: Place) -> tuple[tuple[str, PipelineStage], ...]:
    return read_named(PipelineStage, value, place)


def _some(value: Any, place: Place) -> Any:
    if not value:
        raise place.error("is empty; leave it out where there are no groups")
    return value


@dataclass(frozen=True, slots=True)
class Decoder:
    """The ``decoder`` section. ``pipeline`` holds names and stages in order."""

    filename: FileName = ""
    session_options: Session = field(default_factory=SessionOptions)
    run_options: Mapping[str, str] | None = None
    shared_initializers: tuple[SharedInitializer, ...] = ()
    hidden_size: Size = 0
    num_attention_heads: Size = 0
    num_key_value_heads: Size = 0
    num_hidden_layers: Size = 0
    head_size: Size = 0
    layer_types: tuple[str, ...] = ()
    conv_cache_size: Size = 0
    sliding_window: SlidingWindow | None = None
    state_groups: Annotated[tuple[StateGroup, ...], _some] | None = None
    state_update_capacity: Size = 0
    inputs: DecoderInputs = field(default_factory=DecoderInputs)
    outputs: DecoderOutputs = field(default_factory=DecoderOutputs)
    pipeline: Annotated[tuple[tuple[str, PipelineStage], ...], ReadBy(_read_stages)] = ()


def layers_exist(decoder: Decoder, place: Place) -> Decoder:
    """Check: state groups name layers that there are."""
    for index, group in enumerate(decoder.state_groups or ()):
        for layer in group.layer_ids:
            if layer >= decoder.num_hidden_layers:
                raise (
                    place.key("state_groups")
                    .item(index)
                    .error(f"names layer {layer}; num_hidden_layers is {decoder.num_hidden_layers}")
                )
    return decoder


def names_by_role(names: Any) -> dict[str, str]:
    """The names that are set, of a dataclass of names."""
    return {role: name for role, name in asdict(names).items() if name}
