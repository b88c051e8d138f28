"""The plan for packed tokens: one call mixes prefill, chunks, decode and idle slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.backends.base import Capabilities, Int64Array, KVCache, Step, StepOutput
from onnxgen.backends.ort.calls import split_into_calls
from onnxgen.backends.ort.graph_edit.names import (
    CAPACITY,
    PAD,
    QUERY_SEQLENS,
    SEQLENS_K,
    UNPAD,
)
from onnxgen.backends.ort.prepare import Prepared
from onnxgen.backends.ort.results import StepResults, WantedRows
from onnxgen.backends.ort.session import OrtSession
from onnxgen.backends.ort.slots import SlotCache, checked_slots


@dataclass(frozen=True, slots=True)
class _Call:
    """Some of a step's sequences and tokens.

    Attributes:
        token_ids: int64 ``[tokens]``, packed in the order of the slots.
        positions: int64 ``[tokens]``.
        owner: int64 ``[tokens]``, which of its sequences a token belongs to.
        offset: int64 ``[tokens]``, its place among the new tokens of its sequence.
        wanted: Rows of ``token_ids`` whose logits are wanted.
    """

    token_ids: Int64Array
    positions: Int64Array
    owner: Int64Array
    offset: Int64Array
    wanted: WantedRows


class PackedPlan:
    """Steps as calls on packed tokens over contiguous slots.

    Args:
        session: A session of a graph prepared for this plan.
        prepared: That graph.
        vocab_size: Width of the logits.
        max_context: The longest sequence.
        switch_length: Longer sequences use other rotary tables and run in calls of their own.
        memory_limit_mb: Cap on cache memory.
    """

    def __init__(
        self,
        session: OrtSession,
        prepared: Prepared,
        *,
        vocab_size: int,
        max_context: int,
        switch_length: int | None,
        memory_limit_mb: int | None,
    ) -> None:
        self._session = session
        self._ports = prepared.ports
        self._rows = prepared.rows
        self._padding_limit = prepared.padding_limit
        self._vocab_size = vocab_size
        self._switch_length = switch_length
        self._memory_limit_mb = memory_limit_mb
        self._capabilities = Capabilities(
            ragged=True,
            paged=False,
            rewind=True,
            copy_blocks=True,
            hidden_states=prepared.ports.hidden_states is not None,
            max_context=max_context,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> SlotCache:
        """Allocate ``num_seqs`` slots of ``num_tokens`` positions."""
        return SlotCache(
            self._ports.states,
            num_slots=num_seqs,
            capacity=num_tokens,
            limit_mb=self._memory_limit_mb,
            owner=self,
        )

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a checked step.

        Raises:
            StepError: A sequence is said to be longer than what was written. Nothing was changed.
            BackendError: A call failed. No position below any ``context_len`` was changed.
        """
        assert isinstance(cache, SlotCache)
        slots = checked_slots(step, cache)
        cache.copy(step.copies)
        past_lens, query_lens = step.context_lens.astype(np.int64), step.query_lens.astype(np.int64)
        groups = split_into_calls(
            slots,
            past_lens,
            query_lens,
            capacity=cache.geometry.block_size,
            padding_limit=self._padding_limit,
            switch_length=self._switch_length,
        )
        cache.filled[slots] = past_lens  # what is beyond may be half written if a call fails
        results = StepResults(
            step.logits_rows.size, self._vocab_size, want_hidden_states=step.want_hidden_states
        )
        for group in groups:
            call = _make_call(step, group, query_lens)
            self._run(call, cache, slots[group], past_lens[group], query_lens[group], results)
        cache.filled[slots] = past_lens + query_lens
        return StepOutput(results.logits, results.hidden_states)

    def _run(
        self,
        call: _Call,
        cache: SlotCache,
        slots: Int64Array,
        past_lens: Int64Array,
        query_lens: Int64Array,
        results: StepResults,
    ) -> None:
        first, end = int(slots[0]), int(slots[-1]) + 1
        at, num_tokens = slots - first, call.token_ids.size
        # idle slots: no new tokens, and a length that is in range whatever they hold
        query, seqlens_k = np.zeros(end - first, np.int32), np.zeros(end - first, np.int32)
        query[at], seqlens_k[at] = query_lens, past_lens + query_lens - 1
        unpad = np.empty((1, num_tokens, 2), np.int64)
        unpad[0, :, 0], unpad[0, :, 1] = at[call.owner], call.offset
        pad = np.zeros((end - first, int(query_lens.max()), 2), np.int64)
        pad[unpad[0, :, 0], call.offset, 1] = np.arange(num_tokens)
        binding = cache.bound(
            self._session, self._ports.states, first, end, with_hidden_states=results.want_hidden_states
        )
        ports, bind = self._ports, binding.bind_cpu_input
        bind(ports.input_ids.name, call.token_ids[None].astype(ports.input_ids.dtype, copy=False))
        bind(PAD, pad)
        bind(UNPAD, unpad)
        bind(SEQLENS_K, seqlens_k)
        bind(QUERY_SEQLENS, query)
        bind(CAPACITY, np.array(cache.geometry.block_size, np.int32))
        if ports.position_ids is not None:
            bind(ports.position_ids.name, call.positions[None].astype(ports.position_ids.dtype, copy=False))
        if ports.attention_mask is not None:
            # only its width is left to matter, as the length that chooses rotary tables
            bind(
                ports.attention_mask.name, np.ones((1, int(seqlens_k.max()) + 1), ports.attention_mask.dtype)
            )
        results.run_call(self._session, binding, ports, computed=self._rows, wanted=call.wanted)


def _make_call(step: Step, sequences: Int64Array, query_lens: Int64Array) -> _Call:
    lens = query_lens[sequences]
    owner = np.repeat(np.arange(sequences.size), lens)
    offset = np.arange(owner.size) - (np.cumsum(lens) - lens)[owner]
    source = step.cu_seqlens[:-1][sequences][owner] + offset  # rows of the step
    place = np.full(step.num_tokens, -1, np.int64)
    place[source] = np.arange(source.size)
    rows = place[step.logits_rows]
    results = np.nonzero(rows >= 0)[0]
    pairs = np.stack([np.zeros_like(results), rows[results]], axis=-1)
    return _Call(
        token_ids=step.token_ids[source],
        positions=step.positions[source],
        owner=owner,
        offset=offset,
        wanted=WantedRows(pairs, results),
    )
