"""`BatchSteps`: which tokens of a `Batch`'s sequences go into the next step, and what becomes of its results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.base import KVCache, SequenceInput, Step, StepOutput, pack_step
from onnxgen.engine.batch_cache import BatchCache
from onnxgen.engine.batch_row import Ahead, BatchRow, Float32Array


class BatchSteps:
    """Steps over the rows of one cache.

    Args:
        cache: What they are run on.
        chunk_tokens: The most prompt tokens of a step.
        rope_switch_length: See `DecoderModel.rope_switch_length`.

    Attributes:
        keeps_hidden: Whether every step also brings hidden states.
    """

    def __init__(self, cache: BatchCache, *, chunk_tokens: int, rope_switch_length: int | None) -> None:
        self._cache = cache
        self._chunk_tokens = chunk_tokens
        self._rope_switch = rope_switch_length
        # decode steps by the slots in them, for one cache; their ids and lengths are of no matter
        self._layouts: dict[tuple[int, ...], Step] = {}
        self._layouts_of: KVCache | None = None
        self._adapter: str | None = None
        self.keeps_hidden = False

    def use_adapter(self, name: str | None) -> None:
        """Compute everything under an adapter."""
        self._adapter = name
        self._layouts.clear()

    def over(self, cache: BatchCache) -> BatchSteps:
        """The same over another cache."""
        other = BatchSteps(cache, chunk_tokens=self._chunk_tokens, rope_switch_length=self._rope_switch)
        other.keeps_hidden = self.keeps_hidden
        other._adapter = self._adapter
        return other

    def prepare(self, row: BatchRow) -> None:
        """Make sure that the last token is among those to run, and that all use the same rotary factors."""
        length = len(row.tokens)
        self._cache.forget(row, length - 1)
        if row.long != self._is_long(length):
            row.long = self._is_long(length)
            row.cached = 0

    def run(self, pending: Sequence[BatchRow], rows: Sequence[BatchRow]) -> None:
        """Run one step: every pending row that lacks a single token, then chunks of the others while there is room.

        Args:
            pending: Prepared rows, at least one.
            rows: All there are.
        """
        if self._rope_switch is None and all(
            r.num_pending == 1 and (r.embedded is None or not r.embedded.has(r.cached)) for r in pending
        ):
            self._decode(pending, rows)
            return
        # the graph picks its rotary factors once per step, so both kinds never meet in one
        together = [row for row in pending if row.long == pending[0].long]
        together.sort(key=lambda row: row.num_pending > 1)  # stable
        room = self._chunk_tokens
        parts: list[tuple[BatchRow, int]] = []
        inputs: list[SequenceInput] = []
        for row in together:
            left = row.num_pending
            if left > 1 and room <= 0:
                break
            count = self._chunk(row, left, room)
            room -= count
            parts.append((row, count))
            inputs.append(self._input(row, count, logits="last" if count == left else "none"))
        output = self._execute(inputs, rows, want_hidden_states=self.keeps_hidden)
        for row, count in parts:
            row.cached += count
        _take(output, [row for row, _ in parts if not row.num_pending])

    def run_all(
        self, row: BatchRow, start: int, end: int, rows: Sequence[BatchRow], *, hidden: bool
    ) -> Float32Array:
        """Logits ``[end - start, vocab]``, or hidden states, after each of some tokens of a row, which lacks all of them.

        Args:
            row: Prepared.
            start: The first of the tokens.
            end: Behind the last of them.
            rows: All there are.
            hidden: Hidden states, and no logits.
        """
        found: list[Float32Array] = []
        # what ends before the switch would be computed with the other factors
        stop = max(end, self._rope_switch + 1) if row.long and self._rope_switch is not None else end
        while row.cached < stop:
            first, count = row.cached, self._chunk(row, stop - row.cached, self._chunk_tokens)
            wanted = "all" if first + count > start else "none"
            output = self._execute(
                [self._input(row, count, logits=wanted)],
                rows,
                want_hidden_states=hidden and wanted == "all",
                want_logits=not hidden,
            )
            row.cached += count
            values = output.hidden_states if hidden else output.logits
            if values is not None:
                found.append(values[max(start - first, 0) :])
        return np.concatenate(found)[: end - start]

    def can_run_ahead(self, row: BatchRow) -> bool:
        """Whether `run_ahead` may be called now: else the row itself is to be run first."""
        if row.num_pending == 0:
            return row.logits is not None
        is_told = row.num_pending == 1 and (row.embedded is None or not row.embedded.has(row.cached))
        return is_told and row.long == self._is_long(len(row.tokens))

    def run_ahead(self, row: BatchRow, draft: Sequence[int], rows: Sequence[BatchRow]) -> None:
        """Run the token that a row lacks, if it lacks one, and tokens that may come behind it, in one step.

        Args:
            row: Nothing is known of what is behind its end.
            draft: These tokens, for which there is room. With them, the row uses the same rotary factors.
            rows: All there are.
        """
        assert row.long == self._is_long(len(row.tokens) + len(draft))
        pending = row.tokens.view()[row.cached :]
        step = SequenceInput(
            np.concatenate([pending, np.array(draft, np.int64)]),
            context_len=row.cached,
            blocks=self._cache.blocks(row.slot),
            logits="all",
            adapter=self._adapter,
        )
        logits = self._execute([step], rows, want_hidden_states=False).logits
        if len(pending):
            row.cached += 1
            if row.logits is None:
                row.logits, row.was_set = logits[0], False
        row.ahead = Ahead(tuple(draft), logits[len(pending) :])

    def _decode(self, pending: Sequence[BatchRow], rows: Sequence[BatchRow]) -> None:
        """Run a step in which every row lacks one token.

        What `run` would do, with less Python: around a model's run every line of it finds the processor's
        caches empty and costs several times as much as in a loop.
        """
        # by slot, so that reordered rows make no new layouts
        ordered = sorted(pending, key=lambda row: row.slot)
        layout = self._layout(tuple([row.slot for row in ordered]))
        positions = np.array([row.cached for row in ordered], np.int64)
        step = Step(
            token_ids=np.array([row.tokens.last for row in ordered], np.int64),
            positions=positions,
            cu_seqlens=layout.cu_seqlens,
            context_lens=positions.astype(np.int32),
            block_table=layout.block_table,
            logits_rows=layout.logits_rows,
            copies=tuple(self._cache.copies),
            want_hidden_states=self.keeps_hidden,
            adapters=layout.adapters,
        )
        output = self._cache.execute(step, rows)
        for row in ordered:
            row.cached += 1
        _take(output, ordered)

    def _layout(self, slots: tuple[int, ...]) -> Step:
        if self._layouts_of is not self._cache.blocks_of:
            self._layouts, self._layouts_of = {}, self._cache.blocks_of
        layout = self._layouts.get(slots)
        if layout is None:
            parts = [
                SequenceInput([0], context_len=0, blocks=self._cache.blocks(slot), adapter=self._adapter)
                for slot in slots
            ]
            layout = self._layouts[slots] = pack_step(parts)
        return layout

    def _execute(
        self,
        inputs: Sequence[SequenceInput],
        rows: Sequence[BatchRow],
        *,
        want_hidden_states: bool,
        want_logits: bool = True,
    ) -> StepOutput:
        step = pack_step(
            inputs,
            copies=self._cache.copies,
            want_hidden_states=want_hidden_states,
            want_logits=want_logits,
        )
        return self._cache.execute(step, rows)

    def _input(self, row: BatchRow, count: int, *, logits: str) -> SequenceInput:
        """The next ``count`` tokens of a row."""
        end = row.cached + count
        given = None if row.embedded is None else row.embedded.between(row.cached, end)
        return SequenceInput(
            token_ids=row.tokens.view()[row.cached : end],
            context_len=row.cached,
            blocks=self._cache.blocks(row.slot),
            logits=logits,
            embeds=None if given is None else given[1],
            embeds_at=None if given is None else given[0],
            adapter=self._adapter,
        )

    def _chunk(self, row: BatchRow, left: int, room: int) -> int:
        """How many of a row's ``left`` tokens the next step runs."""
        count = min(left, max(room, 1))
        if row.long:
            # a chunk that ends before the switch would be computed with the other factors
            assert self._rope_switch is not None
            count = max(count, min(left, self._rope_switch + 1 - row.cached))
        return count

    def _is_long(self, length: int) -> bool:
        return self._rope_switch is not None and length > self._rope_switch


def _take(output: StepOutput, rows: Sequence[BatchRow]) -> None:
    """Give rows that are up to date what a step computed of them."""
    logits, hidden = output.logits, output.hidden_states
    for at, row in enumerate(rows):
        row.logits, row.was_set = logits[at], False
        row.hidden = None if hidden is None else hidden[at]
