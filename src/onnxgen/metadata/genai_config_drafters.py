"""Sections of ``genai_config.json`` for heads that draft tokens: ``mtp``, ``dflash2``, ``dspark``; and ``eagle``.

``eagle`` is of this project: onnxruntime-genai, which knows the others, refuses a folder that has it. Its meaning is that of
`Eagle`, and a folder needs no other file for it::

    "model": {
      ...
      "eagle": {
        "filename": "eagle.onnx",
        "main_hidden_states": ["hidden_states.2", "hidden_states.14", "hidden_states.25"],
        "vocab_size": 32000,
        "vocab_map": "eagle_vocab.json",
        "inputs": {"hidden_states": "hidden_states", "aux_hidden_states": "aux_hidden_states"},
        "outputs": {"logits": "logits", "hidden_states": "hidden_states_out"}
      }
    }
"""

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
class EagleInputs:
    """Graph input names of a head of the EAGLE kind.

    Attributes:
        hidden_states: ``[batch, seq, width]``: what the head gave itself for the token before, where it guesses on from its
            own guess; without ``aux_hidden_states`` also what the decoder gave.
        aux_hidden_states: ``[batch, seq, width]``: what the decoder gave for the token before; zeros where the head guesses
            on, as ``hidden_states`` are where it does not, so that a graph may add up what it makes of both. Empty: there
            is no such input.
    """

    input_ids: str = "input_ids"
    hidden_states: str = "hidden_states"
    aux_hidden_states: str = ""
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"


def _some_outputs(names: tuple[str, ...], place: Place) -> tuple[str, ...]:
    if not names or "" in names:
        raise place.error("must name outputs of the decoder's graph, at least one")
    return names


def mapped_with_size(eagle: Eagle, place: Place) -> Eagle:
    """Check: a vocabulary that is mapped has a size."""
    if eagle.vocab_map and eagle.vocab_size is None:
        raise place.key("vocab_size").error(
            "is missing; with a vocab_map the head has fewer tokens than the model"
        )
    return eagle


@dataclass(frozen=True, slots=True)
class Eagle:
    """A head that guesses further tokens from outputs of the decoder, one after the other (EAGLE, EAGLE-3).

    Attributes:
        enabled: False: it is not used.
        filename: The ONNX file.
        session_options: Its session options; None: the decoder's.
        run_options: Its run options; None: the decoder's.
        num_hidden_layers: Layers that keep keys and values.
        main_hidden_states: Outputs of the decoder's graph ``[batch, seq, width]`` that it reads, side by side.
        vocab_size: Width of its logits. None: the model's vocabulary. Fewer: without ``vocab_map`` the first of its ids.
        vocab_map: JSON file, an array with the model's token id for each of the head's logits; empty: they are the same.
        num_draft_tokens: The most tokens that it is made to guess in a row; None: any number.
        inputs: Graph input names.
        outputs: Graph output names. ``hidden_states`` is what the next guess reads.
    """

    enabled: bool = True
    filename: FileName = ""
    session_options: Session | None = None
    run_options: Mapping[str, str] | None = None
    num_hidden_layers: Count = 1
    main_hidden_states: Annotated[tuple[str, ...], _some_outputs] = ("hidden_states",)
    vocab_size: Count | None = None
    vocab_map: FileName = ""
    num_draft_tokens: Count | None = None
    inputs: EagleInputs = field(default_factory=EagleInputs)
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
