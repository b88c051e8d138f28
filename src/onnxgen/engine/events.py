"""What an engine says about requests: one event for each token of each sample, and one for its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.errors import OnnxgenError

FinishReason = Literal["eos", "stop", "length", "cancelled", "deadline", "error"]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one sample.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer, without an end-of-sequence token.
        cached_tokens: Tokens of the prompt that were in the cache when the request was first admitted.
        draft_tokens: Tokens that were guessed ahead and computed.
        accepted_draft_tokens: Of these, those that the model agreed with.
        queued_s: Seconds from the request's acceptance to its first step; None: it had none.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    draft_tokens: int = 0
    accepted_draft_tokens: int = 0
    queued_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """One token of one sample, or its end, or both at once.

    Attributes:
        request_id: Which request.
        index: Which of its ``n`` samples.
        token_id: The new token; None where a sample ends without one.
        is_eos: The token ended the sample and is not part of the answer.
        finish_reason: Set with the sample's last event: ``eos`` (an end-of-sequence token of the model),
            ``stop`` (one of ``stop_token_ids``, or a stop text found by the caller), ``length``, ``cancelled``,
            ``deadline`` or ``error``.
        usage: With the sample's last event.
        error: What went wrong, with ``error`` only.
        logprobs: How probable the token was, where the request asks for it.
        prompt_logprobs: How probable the prompt's tokens were, where the request asks for it: with the first event
            after the prompt was computed, which is sample 0's unless that has ended before. One for each position
            from ``prompt_logprobs_start`` on; None for the first token of all, which has nothing before it.
    """

    request_id: int
    index: int
    token_id: int | None = None
    is_eos: bool = False
    finish_reason: FinishReason | None = None
    usage: TokenUsage | None = None
    error: OnnxgenError | None = None
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
