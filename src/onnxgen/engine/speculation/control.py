"""`DraftLengths`: how many tokens of drafts are worth computing, by what steps were measured to take.

A step of several sequences reads the model's weights once, whoever is in it, so drafts are weighed together: a token of a
draft is worth computing if the chance that it counts is more than what its row takes of everybody's time::

    tokens of a step           sequences + the sum of the chances of all rows added
    ----------------    =      ----------------------------------------------------      is to be as large as can be
    seconds of a step          step with so many rows + time to guess

Rows are added in the order of their chances until that falls. A draft's chances fall from token to token, so what is
added of it is its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxgen.engine.speculation.step_times import StepTimes

_WORTH = 1.02
"""Drafts are computed where they promise this much more than none: what they promise is not certain."""

_LEAST_CHANCE = 0.02
"""Tokens that are less likely to count are never worth computing."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A draft that might be computed.

    Attributes:
        chances: How probable it is that the first token counts, that the first two do, and so on.
        seconds_per_token: What guessing takes, for each token of the longest of the drafts that are guessed together.
    """

    chances: Sequence[float]
    seconds_per_token: float = 0.0


class DraftLengths:
    """Decides about lengths; one for an engine.

    Args:
        rows_twice: Where not all of a draft counts, what does is computed once more, and the token before it (recurrent
            states).
    """

    def __init__(self, *, rows_twice: bool = False) -> None:
        self._times = StepTimes()
        self._rows_twice = rows_twice

    def observe(self, *, rows: int, seconds: float) -> None:
        """A step that computed no prompts, but so many rows, took so long without the time to guess."""
        self._times.observe(rows, seconds)

    def choose(self, offers: Sequence[Offer], *, num_seqs: int, rows: int) -> list[int]:
        """How many tokens of each offer are worth computing.

        Args:
            offers: Drafts.
            num_seqs: Sequences that get a token from the step in any case.
            rows: Rows that it has in any case.
        """
        lengths = [0] * len(offers)
        if not offers:
            return lengths
        ranked = sorted(
            ((chance, -at) for at, offer in enumerate(offers) for chance in offer.chances), reverse=True
        )
        level = self._times.seconds(rows)
        unit = 0.0 if level is None else level / self._times.relative(rows)
        tokens, depths = float(num_seqs), [0] * len(offers)
        again = [0.0] * len(offers)
        best, num_best, guessing = _WORTH * tokens / self._times.relative(rows), 0, 0.0
        for count, (chance, negative) in enumerate(ranked, 1):
            if chance < _LEAST_CHANCE:
                break
            at = -negative
            depths[at] += 1
            tokens += chance
            if unit:
                guessing = max(guessing, depths[at] * offers[at].seconds_per_token / unit)
            if self._rows_twice:
                again[at] = _rows_again(offers[at].chances[: depths[at]])
            rate = tokens / (self._times.relative(rows + count + sum(again)) + guessing)
            if rate > best:
                best, num_best = rate, count
        for _, negative in ranked[:num_best]:
            lengths[-negative] += 1
        return lengths


def _rows_again(chances: Sequence[float]) -> float:
    """How many rows of a draft are computed once more, on average: none if all of it counts, else one more than count.

    ::

        sum over n < length of  (n + 1) * (chance of n tokens - chance of n + 1)
    """
    return 1 + sum(chances) - (len(chances) + 1) * chances[-1]
