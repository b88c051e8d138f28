"""One call on packed tokens, made once and run again for every step of the same form.

Decoding repeats the same form step after step: the same slots, one new token each, the same rows wanted.
All that differs are token ids and lengths. So a call keeps its binding and its index arrays, and a repeated
step only writes a few numbers into memory that is already bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.backends.base import EMBEDS_ROWS, Float32Array, Int64Array, Step
from onnxgen.backends.ort.embeddings import GivenEmbeddings, given_embeddings, no_embeddings
from onnxgen.backends.ort.given_rows import bind_rows
from onnxgen.backends.ort.graph_edit.names import (
    CAPACITY,
    HEAD_ROWS,
    LOGITS_ROWS,
    PAD,
    QUERY_SEQLENS,
    SEQLENS_K,
    UNPAD,
    Rows,
)
from onnxgen.backends.ort.plan import LoadedDecoder
from onnxgen.backends.ort.results import BoundOutputs, StepResults, WantedRows
from onnxgen.backends.ort.slots import SlotCache


@dataclass(frozen=True, slots=True)
class CallForm:
    """What a call has in common with other calls of the same form; sequences are in slot order.

    Attributes:
        sequences: Their indices in the step.
        slots: Their slots.
        query_lens: New tokens of every sequence of the step, in the order of the step.
        rows: The step's ``logits_rows``.
        want_hidden_states: Whether hidden states are wanted.
        want_logits: Whether logits are wanted.
    """

    sequences: tuple[int, ...]
    slots: tuple[int, ...]
    query_lens: tuple[int, ...]
    rows: tuple[int, ...]
    want_hidden_states: bool
    want_logits: bool


class PackedCall:
    """A bound call.

    Args:
        form: What stays the same.
        loaded: The session to run, and its graph.
        cache: The slots to run on.

    Attributes:
        slots: Slots of its sequences, in the order of the step.
    """

    def __init__(self, form: CallForm, loaded: LoadedDecoder, cache: SlotCache) -> None:
        session, prepared = loaded.session, loaded.prepared
        ports, computed = prepared.ports, prepared.rows
        first, end = form.slots[0], form.slots[-1] + 1
        at = np.array(form.slots, np.int64) - first
        lens = np.array([form.query_lens[i] for i in form.sequences], np.int64)
        starts = np.cumsum([0, *form.query_lens])[list(form.sequences)]
        owner = np.repeat(np.arange(lens.size), lens)
        offset = np.arange(owner.size) - (np.cumsum(lens) - lens)[owner]
        self._is_decode = len(form.sequences) == len(form.query_lens) == sum(form.query_lens)
        self.slots = tuple(slot for _, slot in sorted(zip(form.sequences, form.slots, strict=True)))
        self._ports = ports
        self._sequences = np.array(form.sequences, np.int64)
        self._source = starts[owner] + offset  # rows of the step
        self._wanted = _wanted_rows(form, self._source)
        self._at, self._last = at, (lens - 1).astype(np.int32)
        # a call with the whole step, in its order and without idle slots, needs no picking
        self._in_order = form.sequences == tuple(range(len(form.query_lens))) and end - first == lens.size
        self._token_ids = np.zeros((owner.size, 1), ports.input_ids.dtype)
        # idle slots: no new tokens, and a length that is in range whatever they hold
        self._seqlens_k = np.zeros(end - first, np.int32)
        query_seqlens = np.zeros(end - first, np.int32)
        query_seqlens[at] = lens
        unpad = np.stack([at[owner], offset], axis=-1)
        pad = np.zeros((end - first, int(lens.max()), 2), np.int64)
        pad[at[owner], offset, 0] = np.arange(owner.size)
        self._binding = binding = cache.bind(session, ports.states, first, end)
        binding.bind_cpu_input(ports.input_ids.name, self._token_ids)
        binding.bind_cpu_input(SEQLENS_K, self._seqlens_k)
        binding.bind_cpu_input(QUERY_SEQLENS, query_seqlens)
        binding.bind_cpu_input(PAD, pad)
        binding.bind_cpu_input(UNPAD, unpad[:, None])
        binding.bind_cpu_input(CAPACITY, np.array(cache.geometry.block_size, np.int32))
        if computed is Rows.WANTED:
            binding.bind_cpu_input(LOGITS_ROWS, self._wanted.rows[None])
        if prepared.head_rows:
            binding.bind_cpu_input(HEAD_ROWS, self._wanted.head_rows(want_logits=form.want_logits))
        self._embedding_size = prepared.embedding_size
        if prepared.embedding_size is not None:
            self._bind_embeddings(no_embeddings(prepared.embedding_size))
        self._outputs = BoundOutputs(
            session, binding, ports, computed=computed, want_hidden_states=form.want_hidden_states
        )
        self._positions = None
        if ports.position_ids is not None:
            self._positions = np.zeros((owner.size, 1), ports.position_ids.dtype)
            binding.bind_cpu_input(ports.position_ids.name, self._positions)

    def run(self, step: Step, results: StepResults) -> None:
        """Run on a step of this form and fill in its results.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        self._write(step)
        mask = self._ports.attention_mask
        if mask is not None:
            # only its width is left to matter, as the length that chooses rotary tables
            ones = np.ones((1, int(self._seqlens_k.max()) + 1), mask.dtype)
            self._binding.bind_cpu_input(mask.name, ones)
        bind_rows(self._binding, self._ports.rows, step, self._source[:, None])
        width = self._embedding_size
        if EMBEDS_ROWS not in step.inputs or width is None:
            self._outputs.run(self._wanted, results)
            return
        self._bind_embeddings(given_embeddings(step, width, self._place))
        try:
            self._outputs.run(self._wanted, results)
        finally:
            self._bind_embeddings(no_embeddings(width))

    @property
    def repeats(self) -> bool:
        """Whether this is a whole step of one new token for each sequence, ready for `run_again`."""
        known = self._ports.attention_mask is None and not self._ports.rows
        return self._is_decode and known and self._outputs.can_run_again

    def run_again(self, step: Step) -> Float32Array:
        """Run on another decode step of this form; returns its logits, float32 ``[wanted, vocab]``.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        self._write(step)
        return self._outputs.run_again()

    def _place(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Which of some rows of the step are here, and the cells where."""
        tokens, found = split_rows(rows.tolist(), self._source)
        return found, np.stack([tokens, np.zeros_like(tokens)], axis=-1)

    def _bind_embeddings(self, given: GivenEmbeddings) -> None:
        for name, array in given.inputs().items():
            self._binding.bind_cpu_input(name, array)

    def _write(self, step: Step) -> None:
        """Put ids and lengths where they are bound; arrays are bound by address and never replaced."""
        if self._in_order:
            self._token_ids[:, 0] = step.token_ids
            np.add(step.context_lens, self._last, out=self._seqlens_k)
        else:
            self._token_ids[:, 0] = step.token_ids[self._source]
            self._seqlens_k[self._at] = step.context_lens[self._sequences] + self._last
        if self._positions is not None:
            self._positions[:, 0] = step.positions[self._source]


def split_rows(rows: Sequence[int], sources: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Which of a call's tokens are wanted, and where their logits go in the step's output."""
    where = np.full(int(max(sources.max(), max(rows, default=0))) + 1, -1, np.int64)
    where[sources] = np.arange(sources.size)
    place = where[np.array(rows, np.int64)]
    results = np.nonzero(place >= 0)[0]
    return place[results], results


def _wanted_rows(form: CallForm, source: Int64Array) -> WantedRows:
    tokens, results = split_rows(form.rows, source)
    whole = results.size == len(form.rows) and bool((np.diff(results) > 0).all())
    return WantedRows(np.stack([tokens, np.zeros_like(tokens)], axis=-1), results, whole=whole)
