"""Log probabilities of tokens, as chat completions have them, and in part all others."""

from __future__ import annotations

from typing_extensions import TypedDict

from onnxgen.facade.results import TokenLogprob as Told
from onnxgen.facade.results import TopToken

LEAST_LOGPROB = -9999.0
"""What is said of a token without any probability: JSON has no infinity."""


def logprob_of(token: Told | TopToken) -> float:
    """How probable a token was, as JSON can say it."""
    return max(token.logprob, LEAST_LOGPROB)


def shown_token(token: Told | TopToken) -> TopLogprob:
    """A token as it is shown with its probability."""
    return {"token": token.token, "logprob": logprob_of(token), "bytes": list(token.token_bytes)}


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
