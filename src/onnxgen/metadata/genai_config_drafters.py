"""Sections of ``genai_config.json`` for heads that draft tokens: ``mtp``, ``dflash2``, ``dspark``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from onnxgen.metadata.document import AtLeast, Between, Place
from onnxgen.metadata.genai_config_decoder import Count, FileName, SharedInitializer, Size, Sizes
from onnxgen.metadata.genai_config_session import Session


def _above_zero(value: float, place: Place) -> float:
    if value <= 0:
        raise place.error(f"is {value!r}; it must be above 0")
    return value


@dataclass(frozen=True, slots=True)
class MtpInputs:
    """Graph input names of a multi-token-prediction head."""

    input_ids: str = "input_ids"
    hidden_states: str = "hidden_states"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"


@dataclass(frozen=True, slots=True)
class MtpOutputs:
    """Graph output names of a multi-token-prediction head."""

    logits: str = "logits"
    hidden_states: str = "hidden_states_out"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"


@dataclass(frozen=True, slots=True)
class Mtp:
    """A head that predicts further tokens from the decoder's output ``main_hidden_states``."""

    enabled: bool = True
    filename: FileName = ""
    session_options: Session | None = None
    run_options: Mapping[str, str] | None = None
    shared_initializers: tuple[SharedInitializer, ...] = ()
    num_hidden_layers: Count = 1
    num_key_value_heads: Size = 0
    head_size: Size = 0
    main_hidden_states: str = "hidden_states"
    inputs: MtpInputs = field(default_factory=MtpInputs)
    outputs: MtpOutputs = field(default_factory=MtpOutputs)


@dataclass(frozen=True, slots=True)
class BlockDrafterInputs:
    """Graph input names of a block drafter."""

    aux_hidden_states: str = "aux_hidden_states"
    input_ids: str = "input_ids"
    inputs_embeds: str = ""
    q_row_map: str = ""
    qkv_row_map: str = "qkv_row_map"
    block_row_index: str = "block_row_index"
    cumulative_sequence_lengths: str = "cumulative_sequence_lengths"
    past_sequence_lengths: str = "past_sequence_lengths"
    block_table: str = "block_table"
    attention_metadata: str = "attention_metadata"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"
    past_key_scale_names: str = ""
    past_value_scale_names: str = ""


@dataclass(frozen=True, slots=True)
class BlockDrafterOutputs:
    """Graph output names of a block drafter."""

    candidate_ids: str = "draft_candidate_ids"
    scores: str = "draft_scores"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"
    present_key_scale_names: str = ""
    present_value_scale_names: str = ""


@dataclass(frozen=True, slots=True)
class BlockDrafter:
    """A model that drafts a whole block at once (sections ``dflash2`` and ``dspark``); None: not said."""

    filename: FileName = ""
    session_options: Session | None = None
    run_options: Mapping[str, str] | None = None
    shared_initializers: tuple[SharedInitializer, ...] = ()
    num_hidden_layers: Count | None = None
    num_key_value_heads: Size = 0
    head_size: Size = 0
    block_size: Annotated[int, AtLeast(2)] | None = None
    num_draft_tokens: Count | None = None
    selector_top_k: Count | None = None
    mask_token_id: int = 0
    sliding_window: Size = 0
    main_aux_hidden_states: str = "aux_hidden_states"
    aux_hidden_state_layers: Sizes = ()
    independent_sampling: bool = False
    sampled_proposal: Literal["none", "greedy_path", "independent", "lattice"] = "none"
    sampling_temperature: Annotated[float, _above_zero] = 1.0
    sampling_top_p: Annotated[float, Between(0, 1, open_below=True)] = 1.0
    sampling_min_p: Annotated[float, Between(0, 1)] = 0.0
    inputs: BlockDrafterInputs = field(default_factory=BlockDrafterInputs)
    outputs: BlockDrafterOutputs = field(default_factory=BlockDrafterOutputs)
