"""`Search`: what a `Generator` asks of a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.facade.search.last_inputs import LastRun

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


class Search(Protocol):
    """Sequences that grow in lock step, a token at a time. A call that raises changed nothing."""

    @property
    def num_rows(self) -> int:
        """Rows of `logits` and `next_tokens`."""
        ...

    @property
    def length(self) -> int:
        """Tokens of every sequence, prompt and padding included."""
        ...

    @property
    def done(self) -> bool:
        """Whether nothing is left to generate."""
        ...

    def append(self, ids: Int64Array, *, embeds: Float32Array | None = None) -> None:
        """Append a prompt and process it.

        Args:
            ids: int64 ``[batch_size, n]``, ``n`` above 0.
            embeds: float32 ``[batch_size, n, width]``, what the model reads in place of their embeddings.

        Raises:
            TokenIdError: An id is outside the vocabulary.
            ContextLengthError: They do not fit.
            StateError: There are tokens already, and this strategy takes them once.
            CapabilityError: This strategy takes no embeddings.
            BackendError: Processing failed.
        """
        ...

    def step(self) -> None:
        """Choose a token for every row that is not finished.

        Raises:
            StateError: There is nothing to continue, or all rows are finished.
            ContextLengthError: The longest length is reached.
            BackendError: The step failed.
        """
        ...

    def next_tokens(self) -> list[int]:
        """Tokens of the last step, one per row.

        Raises:
            StateError: No token was generated since the beginning or the last rewind.
        """
        ...

    def sequence(self, index: int) -> Int64Array:
        """Tokens of a result, prompt included; valid until the search changes.

        Raises:
            OptionError: There is no such result.
        """
        ...

    def logits(self) -> Float32Array:
        """Logits that the next tokens are chosen from, float32 ``[rows, 1, vocab]``: a copy.

        Raises:
            StateError: There are no tokens.
        """
        ...

    def hidden_states(self) -> Float32Array:
        """Hidden states of each token of the last run, float32 ``[rows, n, hidden]``; NaN for padding and finished rows.

        Raises:
            StateError: There are no tokens.
            CapabilityError: The model's hidden states cannot be had, or not with this strategy.
        """
        ...

    def last_run(self) -> LastRun:
        """What the last run was fed, and what went before it.

        Raises:
            StateError: Nothing was run yet.
            CapabilityError: This strategy does not run all rows at once.
        """
        ...

    def last_input(self, role: str) -> Int64Array | None:
        """What the last run was fed in a role of `DecoderModel.inputs`; None for roles that are not known.

        Raises:
            StateError: Nothing was run yet.
        """
        ...

    def run_logits(self) -> Float32Array:
        """Logits that the last run gave, float32 ``[rows, n, vocab]``, of each of the ``n`` tokens that it was fed.

        NaN for padding and finished rows.
        """
        ...

    def set_logits(self, logits: Float32Array) -> None:
        """Replace them.

        Args:
            logits: float32 ``[rows, vocab]``; the search's from now on.
        """
        ...

    def keep_snapshot(self) -> None:
        """Make it cheap to go back to what is here now, or to any length after it.

        Raises:
            BackendError: Processing failed.
        """
        ...

    def rewind(self, length: int) -> None:
        """Go back to the first ``length`` tokens, 0 to all there are.

        Raises:
            CapabilityError: This strategy cannot go there.
        """
        ...

    def fork(self, batch: Batch) -> Self:
        """Another search that goes on from here, over a fork of the batch of this one.

        Raises:
            CapabilityError: This strategy cannot.
        """
        ...

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """What guessing ahead did so far; zeros where nothing is guessed."""
        ...

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        ...
