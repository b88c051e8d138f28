"""What the engine says of tokens' probabilities, with texts and bytes, as callers get it."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.facade.results import TokenLogprob, TopToken
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.tokenizer import Tokenizer


def described(found: TokenLogprobs, tokenizer: Tokenizer, *, text_offset: int) -> TokenLogprob:
    """A token's probability with its text and bytes."""
    content = tokenizer.token_bytes(found.token_id)
    return TokenLogprob(
        token_id=found.token_id,
        token=content.decode(errors="replace"),
        token_bytes=content,
        logprob=found.logprob,
        rank=found.rank,
        top=tuple(_top(token, logprob, tokenizer) for token, logprob in found.top),
        text_offset=text_offset,
    )


def _top(token_id: int, logprob: float, tokenizer: Tokenizer) -> TopToken:
    content = tokenizer.token_bytes(token_id)
    return TopToken(token_id, content.decode(errors="replace"), content, logprob)


def described_prompt(
    found: Sequence[TokenLogprobs | None], prompt: Sequence[int], tokenizer: Tokenizer
) -> tuple[TokenLogprob | None, ...]:
    """Likewise for the end of a prompt, of which the first token may have none.

    Args:
        found: Of the last tokens of the prompt.
        prompt: All of it.
        tokenizer: The model's.
    """
    text = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    offsets: list[int] = []
    for token in prompt:
        offsets.append(text.offset)
        text.push(int(token))
    return tuple(
        None if one is None else described(one, tokenizer, text_offset=at)
        for one, at in zip(found, offsets[len(prompt) - len(found) :], strict=True)
    )
