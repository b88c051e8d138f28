"""What a step computes, as data: buffers, weights, and the calls between them.

A decoder graph says ``[batch, seq, width]``; a plan has packed rows ``[rows, width]``, where the rows are the
tokens of a pass or, behind the last attention, only those whose logits are wanted::

    embed      table            -> x        [tokens, 576]
    norm       x, scale         -> y        [tokens, 576]
    product    y, qkv matrix    -> qkv      [tokens, 960]
    attend     qkv, cache 0     -> heads    [tokens, 576]
    ...
    product    y, head          -> logits   [wanted, 49152]

A plan holds no arrays but small ones: of a weight it says in which file its bytes are, and how they are packed.
It is written by `lower`, rewritten by `fuse`, kept by `plan_store`, and read by `weights` and `bind`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

Parameter = int | float | str


class RowKind(enum.StrEnum):
    """Which rows a buffer has."""

    TOKENS = "tokens"
    WANTED = "wanted"


class Family(enum.StrEnum):
    """Kinds of calls.

    Roles of reads, writes and weights, and parameters:

    - ``EMBED``: ``-> y``; weight ``table``; ``factor``.
    - ``GIVEN``: ``-> y``, rows that a step gives for its tokens; ``input`` (an entry of ``Step.inputs``).
    - ``JOIN``: ``x0, x1, ... -> y``, side by side.
    - ``NORM``: ``x[, skip] -> y[, sum]``; weights ``scale``, ``[bias]``, ``[skip_bias]``; ``kind`` (``rms`` or
      ``layer``), ``epsilon``, ``groups`` (the row is normed in that many pieces, each with the same weights).
    - ``PRODUCT``: ``x[, residual] -> y``; weights ``matrix``, ``[bias]``; ``level`` (accuracy level of blocks),
      ``epilogue`` (``""``, or the function of a gate: ``y = function(gate) * up`` over an interleaved matrix).
    - ``MAP``: ``x -> y``; ``function``, ``amount`` (what the function is parameterized by).
    - ``ADD``, ``MULTIPLY``: ``x, other -> y``, or weight ``other`` (a row vector).
    - ``GATE``: ``gate, up -> y = function(gate) * up``; ``function``.
    - ``ROTATE``: ``x -> y``; weights ``cos``, ``sin``, ``[cos_long]``, ``[sin_long]``; ``heads``, ``head_dim``,
      ``rotary_dim``, ``interleaved``.
    - ``ATTEND``: ``query, key, value -> y``; weights as ``ROTATE`` where ``rotary_dim`` is not 0,
      ``[query_norm]``, ``[key_norm]``, ``[sinks]``; ``cache`` (index of the cache), ``heads``, ``kv_heads``,
      ``head_dim``, ``rotary_dim``, ``interleaved``, ``scale``, ``softcap`` (0: none), ``window`` (0: none),
      ``epsilon`` (of the norms). It first appends keys and values to the cache.
    - ``PAD``: ``x -> y``: ``heads`` of ``width`` columns to ones of ``padded``, with zeros, or cut off.
    - ``SELECT``: ``x -> y``, the wanted ones of all rows.
    - ``QUANTIZE``: ``x -> y`` for a buffer of integers.

    In plans that take adapters (`adapted_plan`), none of which is kept:

    - ``LORA_DOWN``: ``x -> h``, and ``LORA_UP``: ``h, x -> y`` in place, both only in rows that have an adapter; ``site``
      (which product), ``most`` (tiles of 16 of the highest rank).
    - ``GATE_TILES``: ``x -> y = function(gate) * up``, which take turns in x, 16 columns each; ``function``.
    """

    EMBED = "embed"
    GIVEN = "given"
    JOIN = "join"
    NORM = "norm"
    PRODUCT = "product"
    MAP = "map"
    ADD = "add"
    MULTIPLY = "multiply"
    GATE = "gate"
    ROTATE = "rotate"
    ATTEND = "attend"
    PAD = "pad"
    SELECT = "select"
    QUANTIZE = "quantize"
    LORA_DOWN = "lora_down"
    LORA_UP = "lora_up"
    GATE_TILES = "gate_tiles"


class Elements(enum.StrEnum):
    """What a buffer holds: floats, or integers with a scale and a sum for each group of columns."""

    FLOAT32 = "float32"
    INT8 = "int8"
    INT16 = "int16"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Rows of activations.

    Attributes:
        rows: Which rows.
        width: Columns that mean something.
        elements: What they are.
        group: Columns that share a scale, where they are integers; 0 for floats.
    """

    rows: RowKind
    width: int
    elements: Elements = Elements.FLOAT32
    group: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Some neighbouring columns of a buffer."""

    buffer: str
    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the bytes of a tensor are.

    Attributes:
        dtype: Element type: a name that NumPy or ml_dtypes knows.
        shape: Dimensions, C order.
        file: Name of a file in the model's folder; None where the bytes are here.
        offset: Where in the file they begin.
        inline: The bytes themselves, without a file.
    """

    dtype: str
    shape: tuple[int, ...]
    file: str | None = None
    offset: int = 0
    inline: bytes = b""


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """``[rows, columns]`` in blocks along the columns, as ``MatMulNBits`` stores it: a row for each output."""

    rows: int
    columns: int
    bits: int
    block_size: int
    codes: Stored
    scales: Stored
    zeros: Stored | None


@dataclass(frozen=True, slots=True)
class FloatMatrix:
    """``[rows, columns]`` in floats, a row for each output; ``transposed`` where ``[columns, rows]`` is stored."""

    rows: int
    columns: int
    values: Stored
    transposed: bool


@dataclass(frozen=True, slots=True)
class Vector:
    """Floats of any shape, used as float32, each times ``factor``."""

    values: Stored
    factor: float = 1.0


Part = BlockMatrix | FloatMatrix | Vector


@dataclass(frozen=True, slots=True)
class Weight:
    """One packed weight.

    Attributes:
        parts: What it is made of; several matrices of equal columns are laid side by side.
        interleaved: Two matrices of equal rows alternate tile by tile (gate and up) instead.
    """

    parts: tuple[Part, ...]
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel family; see `Family` for roles and parameters."""

    family: Family
    rows: RowKind
    reads: Mapping[str, View] = field(default_factory=dict[str, View])
    writes: Mapping[str, View] = field(default_factory=dict[str, View])
    weights: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    nodes: tuple[str, ...] = ()

    def number(self, name: str) -> int:
        """An integer parameter."""
        value = self.parameters[name]
        assert isinstance(value, int)
        return value

    def real(self, name: str) -> float:
        """A real parameter."""
        return float(self.parameters[name])

    def text(self, name: str) -> str:
        """A parameter that is a word."""
        return str(self.parameters[name])


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """Keys and values of one attention layer."""

    kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a step computes.

    Attributes:
        calls: In order.
        buffers: By name.
        weights: By name.
        caches: Attention layers, by the index that calls use.
        logits: Where the logits are after the last call.
        hidden_states: Where the last hidden states are, if the graph gives them.
        positions: How many positions the rotary tables know; None where nothing limits them.
    """

    calls: tuple[Call, ...]
    buffers: Mapping[str, Buffer]
    weights: Mapping[str, Weight]
    caches: tuple[CacheLayer, ...]
    logits: View
    hidden_states: View | None = None
    positions: int | None = None

    @property
    def row_widths(self) -> Mapping[str, int]:
        """Widths of what a step may give for each token, by its entry of ``Step.inputs``."""
        given = [call for call in self.calls if call.family is Family.GIVEN]
        return {call.text("input"): call.writes["y"].width for call in given}

    @property
    def embeddings(self) -> View | None:
        """The embeddings of tokens; None where not exactly one call looks tokens up."""
        found = [call.writes["y"] for call in self.calls if call.family is Family.EMBED]
        return found[0] if len(found) == 1 else None
