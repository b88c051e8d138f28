"""Log probabilities of tokens, as chat completions have them."""

from __future__ import annotations

from typing_extensions import TypedDict


class TopLogprob(TypedDict):
    """One of the likeliest tokens at a place."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TypedDict):
    """A token of the answer, and the likeliest ones in its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(TypedDict):
    """Of each token of an answer, its reasoning and the marks in it included."""

    content: list[TokenLogprob]
    refusal: None
