"""Answers to prompts as they are, as completions say them, whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from onnxgen.facade.results import Completion, TokenLogprob
from onnxgen.server.generation.chat_answer import finish_reason
from onnxgen.server.generation.completion_ask import CompletionAsk
from onnxgen.server.generation.completion_logprobs import (
    all_tokens,
    answer_logprobs,
    no_logprobs,
    prompt_logprobs,
)
from onnxgen.server.schemas.completions import CompletionChoice, CompletionLogprobs, FinishReason

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


def completion_choices(
    ask: CompletionAsk, completions: Sequence[Completion], tokenizer: Tokenizer
) -> list[CompletionChoice]:
    """The answers that are given, by prompt.

    Args:
        ask: What was asked.
        completions: All answers that were made, by prompt.
        tokenizer: The model's.
    """
    choices: list[CompletionChoice] = []
    for place in range(len(ask.prompts)):
        made = completions[place * ask.num_made : (place + 1) * ask.num_made]
        # the first of several answers to one prompt has what is told of the prompt, unless it ended before that
        told = next((each.prompt_logprobs for each in made if each.prompt_logprobs is not None), None)
        for completion in _best(made, ask.n):
            index = len(choices)
            choices.append(_choice(ask, completion, tokenizer, index=index, place=place, told=told))
    return choices


def _best(made: Sequence[Completion], n: int) -> Sequence[Completion]:
    """The most probable per token, best first; all of them as they are if none has to be left out."""
    return made if n == len(made) else sorted(made, key=_mean_logprob, reverse=True)[:n]


def _mean_logprob(completion: Completion) -> float:
    tokens = all_tokens(completion)
    return sum(token.logprob for token in tokens) / max(len(tokens), 1)


def _choice(
    ask: CompletionAsk,
    completion: Completion,
    tokenizer: Tokenizer,
    *,
    index: int,
    place: int,
    told: Sequence[TokenLogprob | None] | None,
) -> CompletionChoice:
    fields = ask.fields
    echo = ask.echoes[place] if fields.echo else None
    before = "" if echo is None else echo.text
    choice: CompletionChoice = {
        "index": index,
        "text": before + completion.text,
        "logprobs": None,
        "finish_reason": cast(FinishReason, finish_reason(completion.finish_reason)),
        "stop_reason": completion.stop,
    }
    if fields.logprobs is not None:
        found = no_logprobs()
        if echo is not None:
            found = echo.logprobs(told, tokenizer, top=fields.logprobs)
        choice["logprobs"] = joined(found, answer_logprobs(all_tokens(completion), begin=len(before)))
    if fields.prompt_logprobs is not None:
        choice["prompt_logprobs"] = prompt_logprobs(told or (), top=fields.prompt_logprobs)
    if fields.return_token_ids:
        choice["token_ids"] = list(completion.token_ids)
        choice["prompt_token_ids"] = ask.prompt_ids[place]
    return choice


def joined(first: CompletionLogprobs, then: CompletionLogprobs) -> CompletionLogprobs:
    """Of tokens and of those after them."""
    return {
        "tokens": first["tokens"] + then["tokens"],
        "token_logprobs": first["token_logprobs"] + then["token_logprobs"],
        "top_logprobs": first["top_logprobs"] + then["top_logprobs"],
        "text_offset": first["text_offset"] + then["text_offset"],
    }
