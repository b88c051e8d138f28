"""What the engine says of tokens' probabilities, with texts and bytes, as callers get it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

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


class PromptLogprobs(Sequence[TokenLogprob | None]):
    """How probable the last tokens of a prompt were; None for the first token of all.

    They get their texts and bytes when they are first looked at, which takes some 20 us for each: an event loop that only
    passes them on has better things to do. Equal to a tuple of the same, and pickled as one.

    Args:
        found: What the engine says of them.
        prompt: All of the prompt.
        tokenizer: The model's.
    """

    __slots__ = ("_found", "_prompt", "_tokenizer", "_told")

    def __init__(
        self, found: Sequence[TokenLogprobs | None], prompt: Sequence[int], tokenizer: Tokenizer
    ) -> None:
        self._found, self._prompt, self._tokenizer = found, prompt, tokenizer
        self._told: tuple[TokenLogprob | None, ...] | None = None

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, place: int, /) -> TokenLogprob | None: ...
    @overload
    def __getitem__(self, place: slice, /) -> tuple[TokenLogprob | None, ...]: ...
    def __getitem__(self, place: int | slice, /) -> TokenLogprob | tuple[TokenLogprob | None, ...] | None:
        return self._all()[place]

    def __iter__(self) -> Iterator[TokenLogprob | None]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == tuple(other) if isinstance(other, PromptLogprobs | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all(),)

    def _all(self) -> tuple[TokenLogprob | None, ...]:
        if self._told is None:
            self._told = _described_prompt(self._found, self._prompt, self._tokenizer)
        return self._told


def _described_prompt(
    found: Sequence[TokenLogprobs | None], prompt: Sequence[int], tokenizer: Tokenizer
) -> tuple[TokenLogprob | None, ...]:
    text = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
    offsets: list[int] = []
    for token in prompt:
        offsets.append(text.offset)
        text.push(int(token))
    return tuple(
        None if one is None else described(one, tokenizer, text_offset=at)
        for one, at in zip(found, offsets[len(prompt) - len(found) :], strict=True)
    )
