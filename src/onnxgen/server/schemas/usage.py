"""What answers say of tokens and time."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


class PromptTokensDetails(TypedDict):
    """Of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    """Of the answer's tokens."""

    reasoning_tokens: int


class Usage(TypedDict):
    """Tokens of a request; a prompt counts once, however many answers it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class Timings(TypedDict):
    """How long an answer took, in llama.cpp's words; what was not measured is absent.

    ``prompt_ms`` goes up to the first token, and has the time in the queue; ``predicted_ms`` from the first token to the
    last.
    """

    prompt_n: int
    cache_n: int
    prompt_ms: NotRequired[float]
    prompt_per_second: NotRequired[float]
    predicted_n: int
    predicted_ms: NotRequired[float]
    predicted_per_token_ms: NotRequired[float]
    predicted_per_second: NotRequired[float]
    draft_n: NotRequired[int]
    draft_n_accepted: NotRequired[int]
