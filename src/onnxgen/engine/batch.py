"""`Batch`: a fixed set of sequences and the cache that holds them, kept up to date over the seam.

A row's tokens and what the cache holds of them are two lengths::

    tokens   [ t0 t1 t2 t3 t4 t5 t6 ]        what the sequence is
    cached   [ t0 t1 t2 t3 ]                 what the backend has seen
    pending                  [ t4 t5 t6 ]    what `Batch.forward` runs, in chunks; then ``logits`` is set

Appending and rewinding change the first only; the second follows when logits are wanted. So a step that
fails has changed no sequence, and a backend that cannot rewind is handled by setting ``cached`` to 0. Rows that
become copies of others (`Batch.reorder`) take over the blocks of rows that end; what these lack is copied by the
next step, before it runs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend
from onnxgen.engine.batch_cache import BatchCache
from onnxgen.engine.batch_outputs import BatchOutputs, recomputing
from onnxgen.engine.batch_row import BatchRow, Float32Array
from onnxgen.engine.batch_steps import BatchSteps
from onnxgen.engine.embedded_tokens import extended
from onnxgen.engine.row_copies import heirs
from onnxgen.errors import ContextLengthError, StateError, TokenIdError
from onnxgen.foundations.reused_arrays import ReusedArrays


class Batch:
    """A fixed number of sequences over one backend, with one cache of their own.

    Not safe to use from several threads at once.

    Args:
        backend: Executes the steps; stays the caller's.
        num_rows: Number of sequences.
        max_tokens: The longest any of them may become, in tokens.
        chunk_tokens: The most prompt tokens that one step processes.
        rope_switch_length: See `DecoderModel.rope_switch_length`.
        first_tokens: How long sequences may become before the cache is replaced by one twice as large, and so on. None:
            it has room for ``max_tokens`` from the beginning.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        num_rows: int,
        max_tokens: int,
        chunk_tokens: int,
        rope_switch_length: int | None = None,
        first_tokens: int | None = None,
    ) -> None:
        assert num_rows > 0 and max_tokens > 0 and chunk_tokens > 0 and first_tokens != 0
        self._backend = backend
        self._rows = [BatchRow(slot) for slot in range(num_rows)]
        self._max_tokens = max_tokens
        self._cache = BatchCache(
            backend, num_rows=num_rows, first_tokens=first_tokens or max_tokens, max_tokens=max_tokens
        )
        self._steps = BatchSteps(
            self._cache, chunk_tokens=chunk_tokens, rope_switch_length=rope_switch_length
        )
        self._stacked = ReusedArrays()
        self._closed = False

    @property
    def num_rows(self) -> int:
        """Number of sequences."""
        return len(self._rows)

    @property
    def max_tokens(self) -> int:
        """The longest a sequence may become, in tokens."""
        return self._max_tokens

    @property
    def cache_bytes(self) -> int:
        """Memory held by the cache; 0 before the first step."""
        return self._cache.num_bytes

    def length(self, row: int) -> int:
        """Number of tokens of a sequence."""
        return len(self._rows[row].tokens)

    def cached(self, row: int) -> int:
        """How many of a sequence's tokens need not be computed again."""
        return self._rows[row].cached

    def tokens(self, row: int) -> npt.NDArray[np.int64]:
        """Token ids of a sequence: a view, valid until the sequence changes."""
        return self._rows[row].tokens.view()

    def extend(
        self,
        row: int,
        ids: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        embeds: Float32Array | None = None,
    ) -> None:
        """Append tokens to a sequence; nothing is computed yet.

        Args:
            row: The sequence.
            ids: Token ids.
            embeds: float32 ``[len(ids), width]``, what the model reads in place of their embeddings; the ids are then
                what the sequence is said to hold.

        Raises:
            TokenIdError: An id is outside the vocabulary.
            ContextLengthError: The sequence would become longer than ``max_tokens``.
        """
        if len(ids) == 0:
            return
        array = np.asarray(ids)
        bad = (array < 0) | (array >= self._backend.vocab_size)
        if bad.any():
            at = int(np.argmax(bad))
            raise TokenIdError(f"token id {array[at]} at {at} is outside [0, {self._backend.vocab_size})")
        tokens = self._rows[row].tokens
        if len(tokens) + len(array) > self._max_tokens:
            raise ContextLengthError(
                f"{len(array)} tokens after {len(tokens)} do not fit the maximum of {self._max_tokens} tokens"
            )
        if embeds is not None:
            assert len(embeds) == len(array)
            self._rows[row].embedded = extended(self._rows[row].embedded, len(tokens), embeds)
        self._cache.forget(self._rows[row], self._rows[row].cached)
        tokens.extend(array)
        self._rows[row].changed()

    def append(self, row: int, token: int) -> None:
        """Append one token to a sequence: what `extend` does, at a fraction of its cost.

        Raises:
            TokenIdError: The id is outside the vocabulary.
            ContextLengthError: The sequence would become longer than ``max_tokens``.
        """
        state = self._rows[row]
        if not 0 <= token < self._backend.vocab_size or len(state.tokens) >= self._max_tokens:
            self.extend(row, [token])  # raises
        if state.ahead is not None:
            if state.take_ahead(token):
                return
            self._cache.forget(state, state.cached)
        state.tokens.append(token)
        state.changed()

    def truncate(self, row: int, length: int) -> None:
        """Rewind a sequence to its first ``length`` tokens. Continuing equals never having gone further."""
        state = self._rows[row]
        if length == len(state.tokens):
            return
        state.tokens.truncate(length)
        state.changed()
        if state.embedded is not None:
            state.embedded = state.embedded.truncated(length)
        self._cache.forget(state, length)
        state.lose_snapshots(length)
        snapshot = state.snapshot
        if snapshot is not None and length == snapshot.length == state.cached:
            state.logits, state.hidden, state.was_set = snapshot.logits, snapshot.hidden, False

    def keep_snapshots(self, rows: Sequence[int]) -> None:
        """Make it cheap to rewind some sequences to what they are now, or to any length after it.

        Where the backend can go back to any length, or cannot give out what it holds, nothing is kept. The last snapshot
        of a sequence replaces the one before.

        Raises:
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        if self._backend.capabilities.rewind:
            return
        states = [self._rows[i] for i in rows]
        for row in states:
            self._cache.forget(row, row.cached)
        with recomputing([row for row in states if row.num_pending]):
            self.forward(rows)
        for row in states:
            row.snapshot = self._cache.snapshot(row) or row.snapshot

    def set_logits(self, row: int, logits: Float32Array) -> None:
        """Replace the logits ``[vocab]`` of the token after a sequence's last one."""
        self._rows[row].logits, self._rows[row].was_set = logits, True

    def use_adapter(self, name: str | None) -> None:
        """Compute all sequences under an adapter of the backend, or under none; whoever says so keeps it loaded."""
        assert not any(row.cached for row in self._rows), "what is cached was computed by another adapter"
        self.adopt_adapter(name)

    def adopt_adapter(self, name: str | None) -> None:
        """As `use_adapter`, of an adapter that computes what the one before it did: what is cached stays."""
        self._steps.use_adapter(name)

    def reorder(self, parents: Sequence[int]) -> None:
        """Let every sequence become a copy of one of them: tokens, cache and logits.

        Sequences that stay keep their cache. Of the others, only what differs from what a sequence that ends holds in the
        cache is copied, by the next step; where the backend cannot copy, it is computed again.

        Args:
            parents: Of each sequence, the one it becomes ``[rows]``.
        """
        assert len(parents) == len(self._rows)
        kept, old = heirs(parents), self._rows
        free = [row for row, heir in zip(old, kept, strict=True) if heir is None]
        self._rows = [
            old[parent] if kept[parent] == i else self._cache.copy(old[parent], free)
            for i, parent in enumerate(parents)
        ]

    def fork(self) -> Batch:
        """Another batch with the same sequences, which go on independently of these.

        What the cache holds of them is copied if there is memory for it, and else computed again when it is needed.

        Raises:
            StateError: The batch is closed.
        """
        self._check_open()
        other = copy.copy(self)
        other._cache, other._rows = self._cache.fork(self._rows)
        other._steps = self._steps.over(other._cache)
        other._stacked = ReusedArrays()
        return other

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Take back what the block appended to the sequences when it raises. It must not rewind or reorder them."""
        saved = [(len(r.tokens), r.cached, r.logits, r.hidden, r.embedded) for r in self._rows]
        try:
            yield
        except BaseException:
            for row, (length, cached, logits, hidden, embedded) in zip(self._rows, saved, strict=True):
                row.tokens.truncate(length)
                self._cache.forget(row, cached)
                row.logits, row.hidden, row.embedded = logits, hidden, embedded
            raise

    def forward(self, rows: Sequence[int]) -> Float32Array:
        """Logits of the token after the last one, for some of the sequences.

        Runs what the cache lacks; rows that are up to date cost nothing.

        Returns:
            float32 ``[rows, vocab]``, to be read only, and the caller's as long as it is held.

        Raises:
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        self._check_open()
        if not rows:
            return np.empty((0, self._backend.vocab_size), np.float32)
        states = [self._rows[i] for i in rows]
        pending = [(i, r) for i, r in zip(rows, states, strict=True) if r.logits is None]
        for i, row in pending:
            if not len(row.tokens):
                raise StateError(f"sequence {i} has no tokens; append some first")
        waiting = [row for _, row in pending]
        if waiting:
            self._cache.reserve(max(len(row.tokens) for row in waiting), self._rows)
        for row in waiting:
            self._steps.prepare(row)
        while waiting:
            self._steps.run(waiting, self._rows)
            waiting = [row for row in waiting if row.logits is None]
        logits = [r.logits for r in states if r.logits is not None]
        if len(logits) == 1:
            return logits[0][None]
        return np.stack(logits, out=self._stacked.take((len(logits), self._backend.vocab_size)))

    def look_ahead(self, row: int, draft: Sequence[int]) -> list[Float32Array]:
        """Logits of the token after a sequence's last one, and of those after each token of a draft, in one step.

        When the sequence goes on as the draft says, `forward` has them at no cost. Where the backend cannot go back, what
        the cache holds is copied first.

        Args:
            row: Which sequence.
            draft: Tokens of the vocabulary that may come, at least one, for which there is room; not beyond
                ``rope_switch_length``, unless the sequence is.

        Returns:
            ``len(draft) + 1`` rows, float32 ``[vocab]``, to be read only.

        Raises:
            StateError: The sequence has neither tokens nor logits, or the batch is closed.
            BackendError: A step failed. The sequence is as it was.
        """
        assert draft and self.length(row) + len(draft) <= self._max_tokens
        state = self._rows[row]
        self._cache.forget(state, state.cached)
        if self._steps.can_run_ahead(state):
            self._check_open()
        else:
            with recomputing([state]):
                self.forward([row])
        self._cache.reserve(len(state.tokens) + len(draft), self._rows)
        if not self._backend.capabilities.rewind:
            state.checkpoint = self._cache.snapshot(state)
        self._steps.run_ahead(state, draft, self._rows)
        assert state.logits is not None and state.ahead is not None
        return [state.logits, *state.ahead.logits]

    @property
    def outputs(self) -> BatchOutputs:
        """What the model gave for tokens that were run, computed again where it was not kept."""
        return BatchOutputs(self._rows, self._cache, self._steps, self._backend, self.forward)

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        self._closed = True
        self._cache.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the sequences were closed")
