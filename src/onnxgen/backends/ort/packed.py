"""The plan for packed tokens: one call mixes prefill, chunks, decode and idle slots."""

from __future__ import annotations

from onnxgen.backends.base import Capabilities, KVCache, Step, StepOutput
from onnxgen.backends.ort.calls import split_into_calls
from onnxgen.backends.ort.packed_call import CallForm, PackedCall
from onnxgen.backends.ort.plan import LoadedDecoder
from onnxgen.backends.ort.results import StepResults
from onnxgen.backends.ort.slots import SlotCache, SlotStep
from onnxgen.backends.ort.written import Written


class PackedPlan:
    """Steps as calls on packed tokens over contiguous slots.

    Args:
        loaded: A session of a graph prepared for this plan.
    """

    def __init__(self, loaded: LoadedDecoder) -> None:
        prepared = loaded.prepared
        self._loaded = loaded
        self._session = loaded.session
        self._ports = prepared.ports
        self._rows = prepared.rows
        self._padding_limit = prepared.padding_limit
        self._vocab_size = loaded.vocab_size
        self._switch_length = loaded.switch_length
        self._capabilities = loaded.capabilities(ragged=True)

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> SlotCache:
        """Allocate ``num_seqs`` slots of ``num_tokens`` positions."""
        return self._loaded.slot_cache(num_slots=num_seqs, capacity=num_tokens, owner=self)

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a checked step.

        Raises:
            StepError: A sequence is said to be longer than what was written. Nothing was changed.
            BackendError: A call failed. No position below any ``context_len`` was changed.
        """
        assert isinstance(cache, SlotCache)
        on = SlotStep(step, cache, switch_length=self._switch_length)
        results = StepResults(step, self._vocab_size)
        groups = split_into_calls(
            on.slots,
            on.past_lens,
            on.query_lens,
            capacity=cache.geometry.block_size,
            padding_limit=self._padding_limit,
            switch_length=self._switch_length,
        )
        form = self._form_of(step)
        with on.writing():
            for group in groups:
                key = form if len(groups) == 1 else (*form, *group)
                cache.calls.get(key, lambda g=group: self._call(step, g, on, cache)).run(step, results)
        return StepOutput(results.logits, results.hidden_states)

    def repeat(self, step: Step, cache: KVCache) -> StepOutput | None:
        """Run a decode step like one before it, whose blocks and rows need no new check.

        Checking and planning would take a decode step of a small model longer than all else that is done in
        Python. What can differ between such steps, ids and lengths, is checked here; None when anything is
        unusual, so that `execute` finds out what.

        Raises:
            BackendError: The call failed. No position below any ``context_len`` was changed.
        """
        assert isinstance(cache, SlotCache)
        form = self._form_of(step)
        call: PackedCall | None = cache.calls.find(form)
        if call is None or not call.repeats or self._switch_length is not None or step.copies or step.inputs:
            return None
        contexts: list[int] = step.context_lens.tolist()
        ids: list[int] = step.token_ids.tolist()
        if len(ids) != len(call.slots) or step.positions.tolist() != contexts:
            return None
        if min(ids) < 0 or max(ids) >= self._vocab_size:
            return None
        room = min(self._capabilities.max_context, cache.geometry.block_size)
        written = cache.written
        for slot, length in zip(call.slots, contexts, strict=True):
            if not 0 <= length <= written[slot].length or length >= room:
                return None
        # All that can be done before the run is: after it, no code and no data is left in the caches of the
        # processor, and each line costs many times as much.
        for slot, length in zip(call.slots, contexts, strict=True):
            written[slot] = Written(length + 1)
        try:
            return StepOutput(call.run_again(step))
        except BaseException:
            for slot, length in zip(call.slots, contexts, strict=True):
                written[slot] = Written(length)
            raise

    def _call(self, step: Step, sequences: list[int], on: SlotStep, cache: SlotCache) -> PackedCall:
        form = CallForm(
            sequences=tuple(sequences),
            slots=tuple(on.slots[i] for i in sequences),
            query_lens=tuple(on.query_lens),
            rows=tuple(step.logits_rows.tolist()),
            want_hidden_states=step.want_hidden_states,
            want_logits=step.want_logits,
        )
        return PackedCall(form, self._loaded, cache)

    def _form_of(self, step: Step) -> tuple[object, bytes, bytes, bytes, bool, bool]:
        """What two steps that run as the same calls have in common."""
        return (
            self._loaded.tag,
            step.block_table.tobytes(),
            step.cu_seqlens.tobytes(),
            step.logits_rows.tobytes(),
            step.want_hidden_states,
            step.want_logits,
        )
