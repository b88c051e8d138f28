"""`TokenLogprobs`: how probable a token was where it stands, and which ones were more so."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TOP_LOGPROBS = 100
"""The most alternatives that are told of one position."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What the model thought of a token, and of the best ones in its place.

    Attributes:
        token_id: The token.
        logprob: Natural logarithm of its probability.
        rank: 1 for the most probable token; of equal ones the lower id comes first.
        top: The most probable tokens, best first, and their logarithms: as many as were asked for, or all that had any
            probability.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()
