"""`Guide`: where the answer of one row is in a grammar, however the row got there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.constraints.state import GrammarState
from onnxgen.engine.sampling.edits import FORBIDDEN
from onnxgen.engine.tokens import TokenBuffer

Row = npt.NDArray[np.float32]


class Guide:
    """The grammar of one row's answers.

    What is generated is of an answer, what is appended is not. An answer ends with the row, and the next one begins anew;
    rewinding goes back into the answer that was there.

    Args:
        state: At the beginning of the grammar; the guide's from now on.
        vocab_size: Width of the logits.
    """

    def __init__(self, state: GrammarState, *, vocab_size: int) -> None:
        self._state = state
        # Going back costs a state as much as the answer is long: what is only thought to follow is for another one.
        self._ahead: GrammarState | None = None
        self._vocab_size = vocab_size
        self._words = np.zeros((vocab_size + 31) // 32, np.uint32)
        # generated tokens of all answers, and the row's length before each
        self._generated = TokenBuffer()
        self._lengths: list[int] = []
        # of each answer after the first: the row's length when it began, and how much had been generated
        self._later: list[tuple[int, int]] = []

    def allowed(self, row: Row, drafted: Sequence[int] = ()) -> Row:
        """A copy of a row of logits, in which what the grammar does not allow is forbidden.

        Args:
            row: float32 ``[vocab]``.
            drafted: Tokens that are thought to follow the answer before it.

        Raises:
            GrammarError: The grammar allows nothing at all, or became too costly.
        """
        self.follow(drafted).fill(self._words)
        bits = np.unpackbits(self._words.view(np.uint8), count=self._vocab_size, bitorder="little")
        return np.where(bits.view(np.bool_), row, FORBIDDEN)

    def forced(self, drafted: Sequence[int] = ()) -> tuple[int, ...]:
        """Tokens that must follow the answer and ``drafted``; none where they are not to be told."""
        return self.follow(drafted).forced()

    def follow(self, drafted: Sequence[int] = ()) -> GrammarState:
        """The state after the answer and ``drafted``, until the next call."""
        answer = self._generated.view()[self._later[-1][1] if self._later else 0 :]
        self._state.follow(answer)
        if not drafted:
            return self._state
        thought = np.concatenate([answer, np.array(drafted, np.int64)])
        if self._ahead is None or not self._ahead.is_on_the_way_to(thought):
            self._ahead = self._state.fork()
        self._ahead.follow(thought)
        return self._ahead

    def add(self, token: int, *, length: int) -> None:
        """A token was generated, when the row had ``length`` tokens."""
        self._generated.append(token)
        self._lengths.append(length)

    def begin(self, *, length: int) -> None:
        """Another answer begins: the last one ended when the row had ``length`` tokens."""
        self._later.append((length, len(self._lengths)))

    def rewind(self, length: int) -> None:
        """The row has its first ``length`` tokens only."""
        while self._lengths and self._lengths[-1] >= length:
            self._lengths.pop()
        self._generated.truncate(len(self._lengths))
        while self._later and self._later[-1][0] >= length:
            self._later.pop()

    def fork(self) -> Guide:
        """Another one at the same place."""
        other = Guide(self._state.fork(), vocab_size=self._vocab_size)
        other._generated = self._generated.copy()
        other._lengths, other._later = self._lengths.copy(), self._later.copy()
        return other
