"""`RowSearch`: every row goes its own way, by its best tokens or drawn ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.errors import OptionError, StateError
from onnxgen.facade.rows import Row
from onnxgen.facade.search.last_inputs import LastInputs, LastRun
from onnxgen.facade.search.room import check_room, max_length_reached
from onnxgen.facade.search.source import TokenSource
from onnxgen.metadata.model_spec import ModelSpec

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


class RowSearch:
    """Rows that get a token each per step until they end. See `onnxgen.facade.search.base.Search`.

    Args:
        batch: The rows' tokens and cache; the search's from now on.
        source: Chooses tokens.
        spec: The model.
    """

    def __init__(self, batch: Batch, source: TokenSource, spec: ModelSpec) -> None:
        self._batch = batch
        self._source = source
        self._spec = spec
        self._rows = [Row() for _ in range(batch.num_rows)]
        self._next_tokens: list[int] | None = None
        self._done = False
        self._has_logits = False
        self._inputs = LastInputs(batch.num_rows)
        # whether the tokens of the last step went through the model
        self._is_run = True
        # what went through it last: a prompt, by the places where it begins and ends in each row, or tokens
        self._prompts: list[tuple[int, int]] = []
        self._chosen_from: tuple[Sequence[int], Float32Array] | None = None

    @property
    def num_rows(self) -> int:
        """Rows of `logits` and `next_tokens`."""
        return len(self._rows)

    @property
    def length(self) -> int:
        """Tokens of every row, padding included."""
        return self._rows[0].length

    @property
    def done(self) -> bool:
        """Whether all rows are finished."""
        return self._done or self.length == self._batch.max_tokens

    def append(self, ids: Int64Array, *, embeds: Float32Array | None = None) -> None:
        """Append ``[rows, n]`` tokens; with several rows, padding at a row's end is not processed.

        Of embeddings ``[rows, n, width]`` in their place, all are.
        """
        if len(self._rows) > 1 and self.length:
            raise StateError(
                f"{len(self._rows)} rows hold tokens already, and several rows take tokens once only; "
                "call rewind_to(0) first"
            )
        check_room(
            ids.shape[1], held=self.length, most=self._batch.max_tokens, context=self._spec.context_length
        )
        self._source.interrupt(length=self.length)
        pad = self._spec.tokens.pad if len(self._rows) > 1 and embeds is None else None
        rows = [row.append(part, pad=pad) for row, part in zip(self._rows, ids, strict=True)]
        with self._batch.transaction():
            for i, row in enumerate(rows):
                given = None if embeds is None else embeds[i]
                self._batch.extend(i, row.processed(self._rows[i]), embeds=given)
            self._batch.forward(range(len(rows)))
        self._prompts = [
            (before.num_processed, row.num_processed) for before, row in zip(self._rows, rows, strict=True)
        ]
        if self._done:
            self._source.begin_answer(length=self.length)
        self._rows = rows
        self._inputs.append(ids, pad=pad, embedded=embeds is not None)
        self._done = False
        self._has_logits = True

    def step(self) -> None:
        """Choose a token for every row that is not finished."""
        active = self._active_rows()
        length = self.length
        chosen = self._source.next(active, length=length)
        self._note_run()
        if chosen.forced:
            self._take_forced(chosen.forced)
        if chosen.tokens:
            self._chosen_from = active, chosen.logits
            self._commit(dict(zip(active, chosen.tokens, strict=True)))
        self._source.taken(active, chosen, length=length, done=self.done)

    def next_tokens(self) -> list[int]:
        """Tokens of the last step; finished rows have the padding token."""
        if self._next_tokens is None:
            raise StateError("no token was generated yet; call generate_next_token first")
        return self._next_tokens

    def sequence(self, index: int) -> Int64Array:
        """Tokens of a row."""
        if not 0 <= index < len(self._rows):
            raise OptionError(f"sequence {index} was asked for; there are {len(self._rows)}, counted from 0")
        return self._rows[index].view()

    def logits(self) -> Float32Array:
        """Logits of the next tokens ``[rows, 1, vocab]``; NaN for finished rows."""
        active = [i for i, row in enumerate(self._rows) if row.eos_at is None]
        logits = np.full((len(self._rows), 1, self._spec.vocab_size), np.nan, np.float32)
        if active:
            self._check_started()
            logits[active, 0] = self._batch.forward(active)
            self._note_run()
        return logits

    def run_logits(self) -> Float32Array:
        """Logits of the last run ``[rows, n, vocab]``; those of a prompt are computed again."""
        if self._prompts:
            longest = max(end - start for start, end in self._prompts)
            logits = np.full((len(self._rows), longest, self._spec.vocab_size), np.nan, np.float32)
            for i, (start, end) in enumerate(self._prompts):
                logits[i, : end - start] = self._batch.outputs.all_logits(i, start, end)
            return logits
        if self._is_run or self._chosen_from is None:
            return self.logits()
        rows, found = self._chosen_from
        logits = np.full((len(self._rows), 1, self._spec.vocab_size), np.nan, np.float32)
        logits[rows, 0] = found
        return logits

    def hidden_states(self) -> Float32Array:
        """Hidden states of the last run ``[rows, n, hidden]``; those of a prompt are computed again."""
        self._check_started()
        if self._prompts:
            found = [self._batch.outputs.all_hidden_states(i, *span) for i, span in enumerate(self._prompts)]
            return _padded(found, rows=range(len(found)), num_rows=len(found))
        if self._is_run or self._chosen_from is None:
            active = [i for i, row in enumerate(self._rows) if row.eos_at is None]
            if not active:
                raise StateError("all rows are finished; append tokens or rewind to read hidden states")
            states = self._batch.outputs.hidden_states(active)
            self._note_run()
        else:
            active, _ = self._chosen_from
            # what was chosen is there already, but of rows that it ended
            ends = [self._batch.length(i) - (self._rows[i].eos_at is None and not self._done) for i in active]
            states = [
                self._batch.outputs.all_hidden_states(i, n - 1, n)[0]
                for i, n in zip(active, ends, strict=True)
            ]
        return _padded([state[None] for state in states], rows=active, num_rows=len(self._rows))

    def last_input(self, role: str) -> Int64Array | None:
        """What the last run was fed in a role; None for roles that are not known here."""
        return self._inputs.value(role)

    def last_run(self) -> LastRun:
        """Tokens of the last run, and of those before it."""
        return self._inputs.last_run()

    def set_logits(self, logits: Float32Array) -> None:
        """Replace the logits ``[rows, vocab]`` of the next tokens."""
        self._source.interrupt(length=self.length)
        for i, row in enumerate(logits):
            self._batch.set_logits(i, row)
        self._has_logits = True

    def keep_snapshot(self) -> None:
        """Make it cheap to go back to where the rows are now."""
        active = [i for i, row in enumerate(self._rows) if row.eos_at is None and self._batch.length(i)]
        self._batch.keep_snapshots(active)
        self._note_run()

    def rewind(self, length: int) -> None:
        """Go back to the first ``length`` tokens of every row."""
        self._source.interrupt(length=self.length)
        for i, row in enumerate(self._rows):
            row.truncate(length)
            self._batch.truncate(i, row.num_processed)
        self._source.rewind(length)
        self._inputs.rewind(length)
        self._next_tokens = None
        self._prompts, self._chosen_from = [], None
        self._is_run = True
        self._done = False
        self._has_logits = length > 0

    def fork(self, batch: Batch) -> Self:
        """Another search that goes on from here, over a fork of the batch."""
        other = copy.copy(self)  # lists that are not copied below are replaced, never changed
        other._batch = batch
        other._source = self._source.fork(batch, length=self.length)
        other._rows = [row.copy() for row in self._rows]
        other._inputs = self._inputs.copy()
        return other

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """What guessing ahead did so far."""
        return self._source.stats()

    def close(self) -> None:
        """Release the caches."""
        self._source.close()
        self._batch.close()

    def _active_rows(self) -> Sequence[int]:
        self._check_started()
        if self._done:
            raise StateError("all rows are finished; append tokens or rewind to go on")
        if self.length == self._batch.max_tokens:
            raise max_length_reached(most=self._batch.max_tokens, context=self._spec.context_length)
        return [i for i, row in enumerate(self._rows) if row.eos_at is None]

    def _take_forced(self, tokens: Sequence[int]) -> None:
        """Tokens of the only row, which the batch has already, were run before the next one was chosen."""
        (row,) = self._rows
        start = row.num_processed
        for token in tokens:
            row.add(token)
        self._inputs.append(np.array([tokens], np.int64), pad=None, embedded=False)
        self._prompts = [(start, row.num_processed)]
        self._next_tokens = [tokens[-1]]

    def _commit(self, chosen: Mapping[int, int]) -> None:
        """Take the step's tokens over; nothing below raises half way."""
        special = self._spec.tokens
        filler = special.pad if special.pad is not None else (special.eos or (0,))[0]
        tokens = [chosen.get(i, filler) for i in range(len(self._rows))]
        for i, token in chosen.items():
            if token in special.eos:
                self._rows[i].finish()
        self._next_tokens = tokens
        self._done = all(row.eos_at is not None for row in self._rows)
        if self._done:
            return  # what ended the last rows is not part of any sequence
        for i, row in enumerate(self._rows):
            row.add(tokens[i])
            if row.eos_at is None:
                self._batch.append(i, tokens[i])
        self._is_run = False

    def _note_run(self) -> None:
        if not self._is_run and self._next_tokens is not None:
            self._inputs.step(self._next_tokens)
            self._prompts = []
        self._is_run = True

    def _check_started(self) -> None:
        if not self.length and not self._has_logits:
            raise StateError("there is nothing to continue; call append_tokens (or set_logits) first")


def _padded(values: Sequence[Float32Array], *, rows: Sequence[int], num_rows: int) -> Float32Array:
    """Values ``[n, width]`` of some rows as ``[num_rows, longest, width]``, NaN where there are none."""
    longest = max(map(len, values))
    padded = np.full((num_rows, longest, values[0].shape[1]), np.nan, np.float32)
    for row, value in zip(rows, values, strict=True):
        padded[row, : len(value)] = value
    return padded
