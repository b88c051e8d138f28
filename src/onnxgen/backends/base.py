"""The seam between engine and backend: one ragged step.

Everything above this file (generator, engine, speculation, chunked prefill, prefix reuse, beams) is
expressed as steps, so each backend is written once. A step packs the new tokens of all sequences that
take part into one flat array::

    sequence            0            1     2
    new tokens      a0 a1 a2         b0    c0 c1         1 = decode, more = a prefill chunk or a verification
    token_ids     [ a0 a1 a2         b0    c0 c1 ]       [tokens]
    positions     [  5  6  7         40     0  1 ]       [tokens]
    cu_seqlens    [  0          3       4        6 ]     [seqs + 1]
    context_lens  [  5          40       0 ]             [seqs]    tokens already in the cache
    block_table   [[3, 7], [1, -1], [4, -1]]             [seqs, max_blocks], -1 = no block
    logits_rows   [  2          3 ]                      [wanted]  rows of the packed array

The cache is a pool of blocks of ``block_size`` token positions. A backend that can only keep a sequence
in one contiguous slot says so with one block per sequence that is as long as the slot, so that block
accounting above the seam is the same for both kinds.

Models some of whose layers look back over a window only may keep these layers' keys and values in a second
group of blocks with ids of its own, so that what no window reaches any more can be reused: ``block_table`` is
then of the layers that see everything (`FULL`), and ``window_table`` of the others (`WINDOW`), with
``NO_BLOCK`` where a block was given back. A cache has the group if it was asked for (``create_cache``)::

    window of 6, blocks of 4, context_len 13, two new tokens: the first sees positions 8 to 13

    position      0 1 2 3   4 5 6 7   8 9 . .   12 13 14 15
    block_table  [   3    ,    7    ,    5    ,      2     ]
    window_table [  -1    ,   -1    ,    0    ,      4     ]   needed from block (13 - 6 + 1) // 4 on

A backend owns arrays and nothing else: which sequence owns which block, and how long it is, is said anew
by every step. So a sequence is rewound by a smaller ``context_lens``, and a step that raises has changed
nothing that the caller relies on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.errors import StepError

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]

NO_BLOCK = -1

FULL, WINDOW = 0, 1
"""Groups of cache blocks: of layers that see the whole sequence, and of layers that see a window."""

INPUTS_EMBEDS, EMBEDS_ROWS = "inputs_embeds", "embeds_rows"
"""Entries of ``Step.inputs``, always together: float32 ``[given, width]``, what the first layer reads in place of the
token's embedding, and int64 ``[given]``, the rows of the packed array where it does, in increasing order. Ids there count
for nothing but must be in the vocabulary. Widths and scale are those of `GivesEmbeddings.token_embeddings`."""

HIDDEN_STATES, AUX_HIDDEN_STATES = "hidden_states", "aux_hidden_states"
"""Entries of ``Step.inputs`` of heads that draft for another model: float32 ``[tokens, width]``, a row for each new token.
The former are hidden states of the kind that the head gives back itself (``want_hidden_states``), so that it can be chained;
the latter, where a head has both, are other ones of the model that it drafts for. What a step leaves out is zeros.
``Capabilities.row_widths`` has those that a graph reads; which of its inputs they are, ``DecoderModel.inputs`` says."""

WINDOW_STEP_TOKENS = 1024
"""New tokens of a sequence in one step that a group of windows has room for beside the window itself."""


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """One execution provider in order of preference, with its options as the provider spells them."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class EmbeddingGraph:
    """A graph that makes of ids what a decoder reads in their place.

    Attributes:
        path: The ONNX file, beside the decoder's.
        input_ids: Name of its ids. Further inputs are features of images and sounds, and are left empty.
        outputs: Names of its outputs, and of the decoder's inputs that they are.
    """

    path: Path
    input_ids: str
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DecoderModel:
    """What a backend must know of a decoder-only model; everything else it reads from the graph.

    Attributes:
        path: The ONNX file. External data lies beside it and is confined to its folder.
        model_bytes: The ONNX file's content where the caller holds it in memory; ``path`` then only
            says where external data lies.
        inputs: Role to graph input name; per-layer names contain ``%d``. Roles are the keys of
            ``model.decoder.inputs`` in ``genai_config.json`` (``input_ids``, ``attention_mask``,
            ``position_ids``, ``past_key_names``, ``past_value_names``, ``past_names``, ``past_conv_names``).
            A role whose name the graph lacks is simply not bound.
        outputs: Role to graph output name (``logits``, ``present_key_names``, ...).
        num_layers: Number of decoder layers; layers without a cache have no such inputs in the graph.
        vocab_size: Width of the logits.
        context_length: The longest sequence the model is made for, in tokens.
        rope_switch_length: Sequences longer than this use other rotary factors than shorter ones, so the
            cache of a sequence that crosses it must be recomputed from its first token. None: no switch.
        session_options: ``session_options`` of the model folder, uninterpreted.
        providers: Execution providers that the model folder asks for.
        embedding: The graph in front of the decoder, where it does not look ids up by itself.
        hidden_outputs: Graph outputs that hidden states are, side by side. Empty: the one of the role ``hidden_states``
            if the graph has it, else what its head multiplies.
        input_vocab_size: Ids below it may stand in a step, where they are others than those that there are logits of
            (a head that guesses frequent tokens only); None: they are the same.
    """

    path: Path
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    num_layers: int
    vocab_size: int
    context_length: int
    model_bytes: bytes | None = None
    rope_switch_length: int | None = None
    session_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run_options: Mapping[str, str] = field(default_factory=dict[str, str])
    providers: tuple[ProviderSpec, ...] = ()
    embedding: EmbeddingGraph | None = None
    hidden_outputs: tuple[str, ...] = ()
    input_vocab_size: int | None = None

    @property
    def num_ids(self) -> int:
        """Token ids of steps are below it."""
        return self.vocab_size if self.input_vocab_size is None else self.input_vocab_size


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts that a scheduler can count on.

    Attributes:
        ragged: One step may mix sequences with different numbers of new tokens efficiently. A backend
            without it accepts such steps all the same and runs them in several calls.
        paged: A sequence may own several blocks in any order. False: exactly one block per sequence.
        rewind: ``context_lens`` may be any value up to what was written. False: only 0, or exactly the
            length the sequence has.
        copy_blocks: Steps may ask for block copies. Without ``rewind`` these are of whole states: of as many positions
            as the source holds.
        hidden_states: ``Step.want_hidden_states`` is honoured.
        max_context: The longest sequence that the backend accepts, in tokens.
        inputs: Names of optional entries of ``Step.inputs`` that are understood.
        embedding_size: Width of rows of ``inputs_embeds``; None: that input is not understood.
        batch_invariant: A sequence gets the same bits whatever else is in the step, however its prompt is cut into
            chunks, and wherever its blocks lie.
        window: Layers that look back over fewer positions than all can have blocks of their own (``create_cache``),
            and this many positions, the own one included, are the most that any of them sees. None: no such group.
        adapters: Whether steps apply adapters: ``none``; ``step``, one and the same to all sequences of a step; or
            ``sequence``, to each its own.
        extra_inputs: Names of inputs of the model's graph that adapters may have values for (``Adapter.inputs``) and
            that steps do not fill.
        required_inputs: Those of them that have no value by themselves: steps need an adapter that has one.
        row_widths: Entries of ``Step.inputs`` that have a row for every new token (`HIDDEN_STATES`), and their widths.
    """

    ragged: bool
    paged: bool
    rewind: bool
    copy_blocks: bool
    hidden_states: bool
    max_context: int
    inputs: frozenset[str] = frozenset()
    batch_invariant: bool = False
    window: int | None = None
    adapters: Literal["none", "step", "sequence"] = "none"
    embedding_size: int | None = None
    extra_inputs: frozenset[str] = frozenset()
    required_inputs: frozenset[str] = frozenset()
    row_widths: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """Size of a cache pool.

    Attributes:
        num_blocks: Blocks of the layers that see the whole sequence, with ids from 0.
        block_size: Token positions of a block, of either group.
        window_blocks: Blocks of the layers that see a window, with ids from 0; 0 without such a group, and then
            steps have no ``window_table`` and one block holds all layers.
        block_bytes: Memory of one block, in bytes; with a group of windows and no other layers, 0.
        window_block_bytes: Memory of one block of the window's layers, in bytes.
    """

    num_blocks: int
    block_size: int
    window_blocks: int = 0
    block_bytes: int = 0
    window_block_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy the first ``num_tokens`` positions of block ``source`` to block ``target``, before the step."""

    source: int
    target: int
    num_tokens: int
    group: int = FULL


@dataclass(frozen=True, slots=True)
class SequenceInput:
    """One sequence's part of a step, as callers think of it; `pack_step` makes the arrays.

    Attributes:
        token_ids: The new tokens, at least one.
        context_len: Tokens of this sequence already in the cache.
        blocks: The blocks that hold its past and will hold its new tokens, in order.
        logits: Which of the new tokens' logits are wanted: ``"last"``, ``"all"`` or ``"none"``.
        window_blocks: Likewise the blocks of layers that see a window, ``NO_BLOCK`` where one was given back;
            empty without such a group.
        adapter: Name of the adapter that computes its new tokens, and computed those in the cache; None: none.
        embeds: float32 ``[given, width]``, what some of the new tokens are in place of their ids' embeddings; None: none.
        embeds_at: Which of the new tokens these are, increasing; None: the first ones.
    """

    token_ids: Sequence[int] | npt.NDArray[np.integer[Any]]
    context_len: int
    blocks: Sequence[int]
    logits: str = "last"
    window_blocks: Sequence[int] = ()
    adapter: str | None = None
    embeds: Float32Array | None = None
    embeds_at: Int64Array | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One ragged step. See the module docstring for the layout.

    Attributes:
        token_ids: int64 ``[tokens]``.
        positions: int64 ``[tokens]``.
        cu_seqlens: int32 ``[seqs + 1]``, starts at 0, strictly increasing.
        context_lens: int32 ``[seqs]``.
        block_table: int32 ``[seqs, max_blocks]``, padded with ``NO_BLOCK``.
        logits_rows: int64 ``[wanted]``, rows of the packed array in increasing order.
        copies: Block copies to do before anything else.
        inputs: Optional named inputs (`INPUTS_EMBEDS`, `HIDDEN_STATES`); each backend lists the names it knows.
        want_hidden_states: Also return the last hidden states of the wanted rows.
        want_logits: False: return no logits, and as far as the backend can, do not compute them.
        window_table: int32 ``[seqs, max_blocks]`` of the layers that see a window; None without such a group. With
            it, entries before block ``(context_len - window + 1) // block_size`` are not read and may be ``NO_BLOCK``;
            every other one up to the last new token's is a block.
        adapters: Name of each sequence's adapter, None for none; empty: nobody has one.
    """

    token_ids: Int64Array
    positions: Int64Array
    cu_seqlens: Int32Array
    context_lens: Int32Array
    block_table: Int32Array
    logits_rows: Int64Array
    copies: tuple[BlockCopy, ...] = ()
    inputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])
    want_hidden_states: bool = False
    window_table: Int32Array | None = None
    want_logits: bool = True
    adapters: tuple[str | None, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Number of packed tokens."""
        return int(self.token_ids.shape[0])

    @property
    def num_seqs(self) -> int:
        """Number of sequences taking part."""
        return int(self.context_lens.shape[0])

    @property
    def query_lens(self) -> Int32Array:
        """New tokens of each sequence, int32 ``[seqs]``."""
        return np.diff(self.cu_seqlens).astype(np.int32)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step returns.

    Attributes:
        logits: float32 ``[wanted, vocab]``, owned by the caller, in the order of ``Step.logits_rows``; ``[0, vocab]``
            if none were wanted.
        hidden_states: float32 ``[wanted, hidden]`` if they were asked for: what the head makes the logits of, behind
            the last norm, or what ``DecoderModel.hidden_outputs`` names; owned by the caller.
    """

    logits: Float32Array
    hidden_states: Float32Array | None = None


class KVCache(Protocol):
    """A pool of cache blocks made by one backend, valid only with that backend."""

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the blocks."""
        ...

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        ...

    def export_block(self, block: int, num_tokens: int, *, group: int = FULL) -> npt.NDArray[np.uint8]:
        """The first ``num_tokens`` positions of a block, as bytes that only `import_block` understands: a copy.

        Raises:
            StateError: The cache was closed.
            StepError: There is no such block, or fewer positions of it were written; without ``rewind``, other
                than were written.
        """
        ...

    def import_block(
        self, block: int, content: npt.NDArray[np.uint8], num_tokens: int, *, group: int = FULL
    ) -> None:
        """Fill the first ``num_tokens`` positions of a block with what `export_block` gave for as many.

        Any cache made by the same backend takes it, and then holds the same bits there, and nothing behind them.

        Raises:
            StateError: The cache was closed.
            StepError: There is no such block, or the content has another size.
        """
        ...

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        ...


class Backend(Protocol):
    """Executes steps of one loaded model. Safe to call from one thread at a time per cache."""

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        ...

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        ...

    @property
    def adapters(self) -> LoadedAdapters[Any]:
        """The adapters that steps may name. They are loaded and unloaded here, while steps run.

        Keys and values in a cache are of the adapter that computed them: a sequence keeps its adapter, and prefixes
        are shared among sequences of one adapter only.
        """
        ...

    def create_cache(self, *, num_seqs: int, num_tokens: int, window_group: bool = False) -> KVCache:
        """Allocate room for ``num_seqs`` sequences of up to ``num_tokens`` tokens each.

        Args:
            num_seqs: Sequences, at least 1.
            num_tokens: Tokens of each, at least 1.
            window_group: Keep what windowed layers need in blocks of their own, which callers give back as windows
                move on: enough for ``num_seqs`` sequences that get up to `WINDOW_STEP_TOKENS` new tokens a step.
                Where ``capabilities.window`` is None there are no such layers, and ``geometry.window_blocks`` is 0
                all the same. False: blocks hold all layers, whatever their windows, and there is one table.

        Raises:
            BackendError: The memory cannot be had; the message has the size in bytes.
            CapabilityError: ``num_tokens`` is more than ``capabilities.max_context``.
        """
        ...

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run one step: copies first, then the model; new tokens' keys and values land in the cache.

        Raises:
            StepError: The step breaks the contract (shapes, blocks, lengths). Nothing was changed.
            TokenIdError: A token id is outside the vocabulary. Nothing was changed.
            BackendError: Execution failed. No position below any sequence's ``context_lens`` was changed.
        """
        ...

    def close(self) -> None:
        """Release the model. Calling it twice is harmless."""
        ...


class GivesEmbeddings(Protocol):
    """A backend whose ``capabilities.embedding_size`` is not None."""

    def token_embeddings(self, token_ids: Int64Array) -> Float32Array:
        """What the first layer reads for tokens, scaled as the model scales it: float32 ``[n, width]``.

        Raises:
            TokenIdError: An id is outside the vocabulary.
            CapabilityError: The model has no lookup by ids that could be told.
            StateError: The backend was closed.
        """
        ...


def pack_step(
    sequences: Sequence[SequenceInput],
    *,
    copies: Sequence[BlockCopy] = (),
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    want_hidden_states: bool = False,
    want_logits: bool = True,
) -> Step:
    """Pack the parts of a step into arrays.

    Raises:
        StepError: There are no sequences, one has no new tokens, or fewer of them than embeddings.
    """
    if not sequences:
        raise StepError("a step needs at least one sequence, got none")
    lengths = [len(s.token_ids) for s in sequences]
    if 0 in lengths:
        raise StepError(f"sequence {lengths.index(0)} of the step has no new tokens")
    is_decode = len(sequences) == sum(lengths)
    contexts = [s.context_len for s in sequences]
    width = max(len(s.blocks) for s in sequences)
    rows: list[int] = []
    ends: list[int] = [0]
    for s, length in zip(sequences, lengths, strict=True):
        start = ends[-1]
        ends.append(start + length)
        if s.logits == "last":
            rows.append(start + length - 1)
        elif s.logits == "all":
            rows += range(start, start + length)
        elif s.logits != "none":
            raise StepError(f"logits must be 'last', 'all' or 'none', got {s.logits!r}")
    return Step(
        token_ids=(
            np.array([s.token_ids[0] for s in sequences], np.int64)
            if is_decode
            else np.concatenate([np.asarray(s.token_ids, np.int64) for s in sequences])
        ),
        positions=(
            np.array(contexts, np.int64)
            if is_decode
            else np.concatenate([np.arange(c, c + n) for c, n in zip(contexts, lengths, strict=True)])
        ),
        cu_seqlens=np.array(ends, np.int32),
        context_lens=np.array(contexts, np.int32),
        block_table=np.array([_padded(s.blocks, width) for s in sequences], np.int32),
        logits_rows=np.array(rows, np.int64),
        copies=tuple(copies),
        inputs={**(inputs or {}), **_embeds(sequences, ends)},
        want_hidden_states=want_hidden_states,
        want_logits=want_logits,
        window_table=_window_table(sequences),
        adapters=_adapters(sequences),
    )


def _adapters(sequences: Sequence[SequenceInput]) -> tuple[str | None, ...]:
    names = tuple([s.adapter for s in sequences])
    return names if any(name is not None for name in names) else ()


def _embeds(sequences: Sequence[SequenceInput], starts: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
    rows: list[Int64Array] = []
    embeds: list[Float32Array] = []
    for i, (start, s) in enumerate(zip(starts, sequences, strict=False)):
        if s.embeds is None:
            continue
        at = np.arange(len(s.embeds)) if s.embeds_at is None else s.embeds_at
        if len(at) != len(s.embeds) or (at >= len(s.token_ids)).any():
            raise StepError(
                f"sequence {i} of the step has {len(s.embeds)} embeddings for {len(s.token_ids)} new tokens"
            )
        rows.append(start + at)
        embeds.append(np.asarray(s.embeds, np.float32))
    return {INPUTS_EMBEDS: np.concatenate(embeds), EMBEDS_ROWS: np.concatenate(rows)} if rows else {}


def _window_table(sequences: Sequence[SequenceInput]) -> Int32Array | None:
    width = max(len(s.window_blocks) for s in sequences)
    if not width:
        return None
    return np.array([_padded(s.window_blocks, width) for s in sequences], np.int32)


def _padded(blocks: Sequence[int], width: int) -> Sequence[int]:
    return blocks if len(blocks) == width else [*blocks, *[NO_BLOCK] * (width - len(blocks))]
