"""`PromptScores`: how probable the tokens of a prompt are, gathered from the slices that compute it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.sampling.scoring import raw_logprobs
from onnxgen.errors import BackendError


class PromptScores:
    """How probable each token of a prompt is after those before it.

    ::

        position            0     1     2     3     4          a prompt of 5, told from position 2 on
        token               a     b     c     d     e
        logits of it              1     2     3                those at 4 are for the answer's first token
        told                            ^     ^     ^

    Slices may come again from further back, and then bring what is there already.

    Args:
        prompt: Token ids, int64 ``[tokens]``; kept, not changed.
        start: Position from which on tokens are told of.
        top: How many alternatives are told of each.
    """

    __slots__ = ("_found", "_prompt", "_start", "_top")

    def __init__(self, prompt: npt.NDArray[np.int64], *, start: int, top: int) -> None:
        self._prompt = prompt
        self._start = start
        self._top = top
        self._found: list[TokenLogprobs | None] = [None] if start == 0 else []

    @property
    def next_row(self) -> int | None:
        """Position whose logits are wanted next; None: there is nothing more to come."""
        row = self._start + len(self._found) - 1
        return row if row < len(self._prompt) - 1 else None

    def add(self, logits: npt.NDArray[np.float32], *, first: int) -> None:
        """Take what is new of the logits of some tokens of the sequence.

        Args:
            logits: float32 ``[tokens, vocab]``.
            first: Position of the first of these tokens; not behind `next_row`.

        Raises:
            BackendError: The model returned NaN, or infinity.
        """
        row = self.next_row
        if row is None:
            return
        assert first <= row, f"logits from {first} on leave out those at {row}"
        targets = self._prompt[row + 1 : first + len(logits) + 1].tolist()
        rows = logits[row - first : row - first + len(targets)]
        for score in raw_logprobs(list(rows), targets, [self._top] * len(targets)):
            if score is None:
                raise BackendError(
                    f"the model returned no numbers after {self._start + len(self._found)} tokens of the prompt; it is "
                    "numerically broken on this backend"
                )
            self._found.append(score)

    def told(self) -> tuple[TokenLogprobs | None, ...]:
        """What was gathered: one for each position from ``start`` on, None for the first of all."""
        assert self.next_row is None
        return tuple(self._found)
