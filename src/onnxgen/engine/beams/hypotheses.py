"""`Hypotheses`: the best finished continuations of a group of beams, and whether they can still be surpassed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnxgen.engine.beams.options import EarlyStopping

_LARGEST_EXPONENT = 700.0
"""Of e, within float64."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A continuation of a prompt.

    Attributes:
        token_ids: The answer, prompt and end token not included.
        score: What it is ranked by: the sum of log probabilities over the penalized length.
        sum_logprobs: That sum, the end token's included, if it has one.
        eos_id: The token that ended it; None: it is still open, or ran into the longest length.
    """

    token_ids: tuple[int, ...]
    score: float
    sum_logprobs: float
    eos_id: int | None


def penalized(sum_logprobs: float, length: int, length_penalty: float) -> float:
    """A sum of log probabilities over ``length ** length_penalty``, which never overflows."""
    exponent = length_penalty * math.log(max(length, 1))
    return sum_logprobs / math.exp(max(-_LARGEST_EXPONENT, min(exponent, _LARGEST_EXPONENT)))


class Hypotheses:
    """The best hypotheses, best first; of equal ones that which came first.

    Args:
        keep: The most there are.
        length_penalty: See `BeamOptions`.
        early_stopping: See `BeamOptions`.
        max_length: The longest length that a hypothesis can have, counted like those given to `add`.
    """

    def __init__(
        self, *, keep: int, length_penalty: float, early_stopping: EarlyStopping, max_length: int
    ) -> None:
        self._keep = keep
        self._length_penalty = length_penalty
        self._early_stopping: EarlyStopping = early_stopping
        self._max_length = max_length
        self._best: list[Hypothesis] = []

    def __len__(self) -> int:
        return len(self._best)

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self._best)

    def add(
        self, token_ids: tuple[int, ...], sum_logprobs: float, *, length: int, eos_id: int | None
    ) -> None:
        """Add a hypothesis, if it is among the best.

        Args:
            token_ids: The answer.
            sum_logprobs: Sum of its log probabilities.
            length: What the penalty sees as its length.
            eos_id: The token that ended it.
        """
        score = penalized(sum_logprobs, length, self._length_penalty)
        at = next((i for i, other in enumerate(self._best) if score > other.score), len(self._best))
        self._best.insert(at, Hypothesis(token_ids, score, sum_logprobs, eos_id))
        del self._best[self._keep :]

    def are_final(self, best: float, *, length: int) -> bool:
        """Whether the search may end.

        Args:
            best: The best sum of log probabilities among what might still surpass them.
            length: The length that this has, counted like those given to `add`.
        """
        if len(self._best) < self._keep:
            return False
        if self._early_stopping is True:
            return True
        if self._early_stopping == "never" and self._length_penalty > 0:
            length = self._max_length
        return self._best[-1].score >= penalized(best, length, self._length_penalty)

    def copy(self) -> Hypotheses:
        """Another set with the same ones, to see what would be if more were added."""
        other = Hypotheses(
            keep=self._keep,
            length_penalty=self._length_penalty,
            early_stopping=self._early_stopping,
            max_length=self._max_length,
        )
        other._best = list(self._best)
        return other
