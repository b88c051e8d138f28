"""What answers say of tokens and time, from what the engine counted."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.facade.results import Completion
from onnxgen.server.schemas.usage import Timings, Usage


def usage_of(completions: Sequence[Completion], *, n: int = 1) -> Usage:
    """Tokens of a request.

    Args:
        completions: All its answers, those to one prompt one after the other.
        n: Answers to each prompt, whose tokens count once.
    """
    firsts = completions[::n]
    prompt = sum(each.usage.prompt_tokens for each in firsts)
    answered = sum(each.usage.completion_tokens for each in completions)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answered,
        "total_tokens": prompt + answered,
        "prompt_tokens_details": {"cached_tokens": sum(each.usage.cached_tokens for each in firsts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(each.usage.reasoning_tokens for each in completions)
        },
    }


def timings_of(completion: Completion) -> Timings:
    """How long an answer took."""
    used, took = completion.usage, completion.timings
    found: Timings = {
        "prompt_n": used.prompt_tokens - used.cached_tokens,
        "cache_n": used.cached_tokens,
        "predicted_n": used.completion_tokens,
    }
    if took.ttft_s is not None:
        found["prompt_ms"] = took.ttft_s * 1e3
    if took.prefill_tok_s is not None:
        found["prompt_per_second"] = took.prefill_tok_s
    if took.decode_tok_s is not None:
        found["predicted_ms"] = (used.completion_tokens - 1) / took.decode_tok_s * 1e3
        found["predicted_per_token_ms"] = 1e3 / took.decode_tok_s
        found["predicted_per_second"] = took.decode_tok_s
    if used.draft_tokens:
        found["draft_n"] = used.draft_tokens
        found["draft_n_accepted"] = used.accepted_draft_tokens
    return found
