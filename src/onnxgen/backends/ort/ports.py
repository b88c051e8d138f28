"""The inputs and outputs of a decoder graph by role, with the sizes that cache memory needs."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class StateKind(enum.Enum):
    """How a cached tensor grows."""

    KEY_VALUE = "[batch, kv_heads, positions, head_dim]"
    COMBINED = "[2, batch, kv_heads, positions, head_dim]"
    FIXED = "[batch, ...], replaced by every step"


@dataclass(frozen=True, slots=True)
class StatePort:
    """One cached tensor.

    Attributes:
        past: Graph input.
        present: Graph output.
        kind: How it grows.
        dtype: Name of the numpy (or ml_dtypes) type.
        onnx_type: The ONNX element type.
        dims: One sequence's part: ``(kv_heads, head_dim)``, ``(2, kv_heads, head_dim)``, or the fixed dims.
        positions: The number of positions where the graph fixes it.
    """

    past: str
    present: str
    kind: StateKind
    dtype: str
    onnx_type: int
    dims: tuple[int, ...]
    positions: int | None = None


@dataclass(frozen=True, slots=True)
class TokenPort:
    """An input with an entry per token: its name and integer type."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class RowPort:
    """An input with a row for every token, which steps give: its entry of ``Step.inputs``, its name, float type and width."""

    role: str
    name: str
    dtype: str
    width: int


@dataclass(frozen=True, slots=True)
class AdapterPort:
    """An input that adapters, or whoever runs the model, have values for.

    Attributes:
        name: Graph input.
        dtype: Name of the numpy (or ml_dtypes) type.
        onnx_type: The ONNX element type.
        dims: Sizes; None where any will do.
    """

    name: str
    dtype: str
    onnx_type: int
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that a decoder reads and gives.

    Attributes:
        input_ids: The tokens.
        attention_mask: None when the graph has none.
        position_ids: None when the graph has none.
        logits: Name of the logits.
        hidden_states: Name of the last hidden states, if the graph gives them.
        states: All cached tensors.
        adapter: What adapters have values for.
        required: Inputs that nobody here knows, and that somebody must have a value for.
        rows: Inputs with a row for every token.
    """

    input_ids: TokenPort
    attention_mask: TokenPort | None
    position_ids: TokenPort | None
    logits: str
    hidden_states: str | None
    states: tuple[StatePort, ...]
    adapter: tuple[AdapterPort, ...] = ()
    required: tuple[AdapterPort, ...] = ()
    rows: tuple[RowPort, ...] = ()
