"""The plan for grouped-query attention without ragged lengths: decode as one batch, prefill one by one.

Slots are as in the packed plan, but the graph keeps its own layout ``[batch, seq]`` and its attention mask,
and a call has either one token for each of several neighbouring slots, or any number for one slot.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import onnxruntime as ort

from onnxgen.backends.base import Capabilities, KVCache, Step, StepOutput
from onnxgen.backends.ort.embeddings import given_embeddings
from onnxgen.backends.ort.given_rows import bind_rows
from onnxgen.backends.ort.graph_edit.names import HEAD_ROWS, LOGITS_ROWS, Rows
from onnxgen.backends.ort.plan import LoadedDecoder
from onnxgen.backends.ort.rectangles import Rectangle, cut_into_rectangles
from onnxgen.backends.ort.results import BoundOutputs, StepResults
from onnxgen.backends.ort.slots import SlotCache, SlotStep
from onnxgen.backends.ort.written import is_long


class BatchedPlan:
    """Steps as rectangular calls over contiguous slots.

    Args:
        loaded: A session of a graph prepared for this plan.
    """

    def __init__(self, loaded: LoadedDecoder) -> None:
        prepared = loaded.prepared
        self._loaded = loaded
        self._session = loaded.session
        self._ports = prepared.ports
        self._rows = prepared.rows
        self._vocab_size = loaded.vocab_size
        self._switch_length = loaded.switch_length
        self._capabilities = loaded.capabilities(ragged=False)

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> SlotCache:
        """Allocate ``num_seqs`` slots of ``num_tokens`` positions."""
        return self._loaded.slot_cache(num_slots=num_seqs, capacity=num_tokens, owner=self)

    def repeat(self, step: Step, cache: KVCache) -> StepOutput | None:
        """No step is known beforehand here."""
        del step, cache
        return None

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a checked step.

        Raises:
            StepError: A sequence is said to be longer than what was written. Nothing was changed.
            BackendError: A call failed. No position below any ``context_len`` was changed.
        """
        assert isinstance(cache, SlotCache)
        on = SlotStep(step, cache, switch_length=self._switch_length)
        results = StepResults(step, self._vocab_size)
        groups = self._groups(on.slots, on.past_lens, on.query_lens)
        with on.writing():
            for call in cut_into_rectangles(step, groups, last_row_only=self._rows is Rows.LAST):
                self._run(step, call, cache, on.slots, results)
        return StepOutput(results.logits, results.hidden_states)

    def _groups(self, slots: list[int], past_lens: list[int], query_lens: list[int]) -> list[list[int]]:
        """Runs of neighbouring slots with one new token each; every other sequence alone."""
        groups: list[list[int]] = []
        for i in sorted(range(len(slots)), key=slots.__getitem__):
            before = groups[-1][-1] if groups else None
            if (
                before is not None
                and query_lens[before] == query_lens[i] == 1
                and slots[before] + 1 == slots[i]
                and is_long(past_lens[before] + 1, self._switch_length)
                == is_long(past_lens[i] + 1, self._switch_length)
            ):
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups

    def _run(
        self, step: Step, call: Rectangle, cache: SlotCache, slots: list[int], results: StepResults
    ) -> None:
        first = slots[int(call.sequences[0])]
        end = first + call.sequences.size
        binding, outputs = cache.calls.get(
            (self._loaded.tag, first, end, results.want_hidden_states, results.want_logits),
            lambda: self._bind(cache, first, end, want_hidden_states=results.want_hidden_states),
        )
        ports = self._ports
        binding.bind_cpu_input(ports.input_ids.name, call.token_ids.astype(ports.input_ids.dtype, copy=False))
        if ports.position_ids is not None:
            binding.bind_cpu_input(ports.position_ids.name, call.positions.astype(ports.position_ids.dtype))
        if ports.attention_mask is not None:
            mask = call.attention_mask().astype(ports.attention_mask.dtype)
            binding.bind_cpu_input(ports.attention_mask.name, mask)
        if self._rows is Rows.WANTED:
            binding.bind_cpu_input(LOGITS_ROWS, np.ascontiguousarray(call.wanted.rows)[None])
        if self._loaded.prepared.head_rows:
            binding.bind_cpu_input(HEAD_ROWS, call.wanted.head_rows(want_logits=results.want_logits))
        bind_rows(binding, ports.rows, step, call.tokens)
        width = self._loaded.prepared.embedding_size
        if width is not None:
            given = given_embeddings(step, width, partial(call.place, step))
            for name, array in given.inputs().items():
                binding.bind_cpu_input(name, array)
        outputs.run(call.wanted, results)

    def _bind(
        self, cache: SlotCache, first: int, end: int, *, want_hidden_states: bool
    ) -> tuple[ort.IOBinding, BoundOutputs]:
        binding = cache.bind(self._session, self._ports.states, first, end)
        outputs = BoundOutputs(
            self._session,
            binding,
            self._ports,
            computed=self._rows,
            want_hidden_states=want_hidden_states,
        )
        return binding, outputs
