"""Completions of prompts as they are: what is asked, and what is answered.

Source: https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from onnxgen.server.schemas.generation import GenerationFields
from onnxgen.server.schemas.usage import Timings, Usage


class CompletionRequest(GenerationFields):
    """Prompts to go on with."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"prompt": "ONNX is", "max_tokens": 100}]})

    prompt: str | list[int] | list[str | list[int]]
    """A text or several, which get the special tokens that the tokenizer adds; or token ids, which get nothing."""
    suffix: str | None = None
    """The text after the gap, which the model is to fill; for code models that were trained for it, and one text."""
    echo: bool | None = None
    """The prompt stands before the answer, with log probabilities of its tokens where they are asked for."""
    logprobs: Annotated[int, Field(ge=0)] | None = None
    """Give log probabilities of the tokens, and of this many of the likeliest at each place."""
    best_of: Annotated[int, Field(ge=1)] | None = None
    """Make so many answers, and give the n of them that are the most probable per token."""

    prompt_logprobs: Annotated[int, Field(ge=0)] | None = None
    """Likewise logprobs, of the prompt's tokens, in vLLM's form."""
    add_special_tokens: bool | None = None
    """Whether texts get the special tokens that the tokenizer adds; usually true."""
    truncate_prompt_tokens: int | None = None
    """Use only so many of the last tokens of each prompt; -1 for what the context takes."""
    return_token_ids: bool | None = None
    """Give token ids of prompt and answer."""

    def length(self) -> tuple[str, int | None]:
        """See `GenerationFields`; 0 is no length of an answer: then there is none."""
        return "max_tokens", self.max_tokens or None

    def num_logprobs(self) -> tuple[str, int | None]:
        """See `GenerationFields`."""
        return "logprobs", self.logprobs


FinishReason = Literal["stop", "length"]


class CompletionLogprobs(TypedDict):
    """Of each token, one list for each thing that is said of it.

    Bytes that are no whole character are written as ``bytes:`` and escapes. The token that ended the answer is the last
    one, where one did. The first token of an echoed prompt has no probability.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class PromptLogprob(TypedDict):
    """How probable a token was, its place among all, and its text."""

    logprob: float
    rank: int
    decoded_token: str


class CompletionChoice(TypedDict):
    """One of the answers, and why it ended; ``stop_reason`` is the stop text or token that was found."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None
    prompt_logprobs: NotRequired[list[dict[int, PromptLogprob] | None]]
    token_ids: NotRequired[list[int]]
    prompt_token_ids: NotRequired[list[int]]


class TextCompletion(TypedDict):
    """All answers: answer ``j`` to prompt ``i`` has index ``i * n + j``."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage
    timings: NotRequired[Timings]
