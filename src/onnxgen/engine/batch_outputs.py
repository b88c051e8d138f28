"""`BatchOutputs`: what the model gave for tokens of a `Batch` that were run, computed again where it was not kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence

import numpy as np

from onnxgen.backends.base import Backend
from onnxgen.engine.batch_cache import BatchCache
from onnxgen.engine.batch_row import BatchRow, Float32Array
from onnxgen.engine.batch_steps import BatchSteps
from onnxgen.errors import CapabilityError


class BatchOutputs:
    """Logits and hidden states of a batch's tokens. Asking for them changes no sequence.

    Args:
        rows: The sequences.
        cache: Theirs.
        steps: Theirs.
        backend: Executes them.
        forward: `Batch.forward`.
    """

    def __init__(
        self,
        rows: Sequence[BatchRow],
        cache: BatchCache,
        steps: BatchSteps,
        backend: Backend,
        forward: Callable[[Sequence[int]], Float32Array],
    ) -> None:
        self._rows, self._cache, self._steps = rows, cache, steps
        self._backend = backend
        self._forward = forward

    def all_logits(self, row: int, start: int, end: int) -> Float32Array:
        """Logits after each of some tokens of a sequence, computed again.

        Args:
            row: Which sequence.
            start: The first token.
            end: Behind the last one, above ``start``.

        Returns:
            float32 ``[end - start, vocab]``, all of which is in memory at once.

        Raises:
            BackendError: A step failed. The sequence is as it was.
        """
        return self._run_all(row, start, end, hidden=False)

    def all_hidden_states(self, row: int, start: int, end: int) -> Float32Array:
        """Hidden states of some tokens of a sequence, float32 ``[end - start, hidden]``; as `all_logits`.

        Raises:
            CapabilityError: The model's hidden states cannot be had.
            BackendError: A step failed. The sequence is as it was.
        """
        self._check_hidden()
        return self._run_all(row, start, end, hidden=True)

    def hidden_states(self, rows: Sequence[int]) -> Float32Array:
        """Hidden states of the last tokens of some of the sequences, float32 ``[rows, hidden]``.

        The first call computes the last tokens again; from then on every step brings them.

        Raises:
            CapabilityError: The model's hidden states cannot be had.
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        self._check_hidden()
        self._steps.keeps_hidden = True
        missing = [i for i in rows if self._rows[i].hidden is None]
        with recomputing([self._rows[i] for i in missing]):
            self._forward(missing)
        found = [row.hidden for row in (self._rows[i] for i in rows) if row.hidden is not None]
        return np.stack(found)

    def _run_all(self, row: int, start: int, end: int, *, hidden: bool) -> Float32Array:
        state = self._rows[row]
        self._cache.reserve(len(state.tokens), self._rows)
        self._steps.prepare(state)
        self._cache.forget(state, start)
        return self._steps.run_all(state, start, end, self._rows, hidden=hidden)

    def _check_hidden(self) -> None:
        if not self._backend.capabilities.hidden_states:
            raise CapabilityError("this model gives no hidden states: nothing in its graph looks like a head")


@contextlib.contextmanager
def recomputing(rows: Sequence[BatchRow]) -> Generator[None]:
    """In the block, rows have no logits, so that a step runs them; afterwards they have those again that they had."""
    held = [(row, row.logits, row.was_set) for row in rows]
    for row in rows:
        row.logits = None
    try:
        yield
    finally:
        for row, logits, was_set in held:
            if logits is not None:
                row.logits, row.was_set = logits, was_set
