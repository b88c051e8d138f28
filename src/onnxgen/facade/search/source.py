"""`TokenSource`: where a `RowSearch` gets its next tokens from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the next step appends.

    Attributes:
        tokens: One for each row that was asked for; none where forced ones filled all room.
        logits: What they were chosen from, float32 ``[rows, vocab]``.
        forced: Tokens of the only row that come before; they are in the batch already.
    """

    tokens: Sequence[int]
    logits: Float32Array
    forced: tuple[int, ...] = ()


class TokenSource(Protocol):
    """Chooses tokens for rows in lock step. A call that raises changed nothing."""

    def next(self, rows: Sequence[int], *, length: int) -> Chosen:
        """The next token of each of some rows.

        Args:
            rows: Which ones, ascending.
            length: How long sequences are, padding included.

        Raises:
            BackendError: The step failed, or a row has no finite maximum.
            GrammarError: A grammar became too costly.
        """
        ...

    def taken(self, rows: Sequence[int], chosen: Chosen, *, length: int, done: bool) -> None:
        """What `next` gave was appended to sequences and to the batch; tokens that end a row were not.

        Args:
            rows: As in `next`.
            chosen: What it gave.
            length: How long sequences were before.
            done: Nothing more is to be generated.
        """
        ...

    def interrupt(self, *, length: int) -> None:
        """Something else than the next tokens happens to sequences, which are ``length`` long."""
        ...

    def begin_answer(self, *, length: int) -> None:
        """All rows had ended; now sequences of that ``length`` are continued by a prompt."""
        ...

    def rewind(self, length: int) -> None:
        """Sequences are cut to ``length`` tokens."""
        ...

    def fork(self, batch: Batch, *, length: int) -> Self:
        """Another one for a fork of the batch, whose sequences are ``length`` long."""
        ...

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """What guessing ahead did so far."""
        ...

    def close(self) -> None:
        """Release what it holds beside the batch."""
        ...
