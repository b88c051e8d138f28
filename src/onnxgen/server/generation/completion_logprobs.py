"""Log probabilities of tokens as completions have them, and echoed prompts as they stand before an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnxgen.facade.results import Completion, TokenLogprob
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.server.schemas.completions import CompletionLogprobs, PromptLogprob
from onnxgen.server.schemas.logprobs import logprob_of


def no_logprobs() -> CompletionLogprobs:
    """Of no token."""
    return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}


def answer_logprobs(tokens: Iterable[TokenLogprob], *, begin: int) -> CompletionLogprobs:
    """Of tokens of an answer whose text begins at character ``begin`` of what is given."""
    found = no_logprobs()
    for token in tokens:
        _add(found, token, at=begin + token.text_offset)
    return found


def all_tokens(completion: Completion) -> tuple[TokenLogprob, ...]:
    """What is known of an answer's tokens, with the one that ended it."""
    end = completion.end_logprob
    return (*(completion.logprobs or ()), *(() if end is None else (end,)))


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt that stands before its answer.

    Attributes:
        text: What is shown of it: a text as it was given, or the text of token ids with special tokens.
        token_ids: All of it.
        hidden: How many characters of the tokens' text come before it: those of special tokens that a tokenizer adds.
    """

    text: str
    token_ids: Sequence[int]
    hidden: int = 0

    @classmethod
    def of(cls, given: str | None, token_ids: Sequence[int], tokenizer: Tokenizer) -> Echo:
        """A prompt.

        Args:
            given: The text that it was given as, and which it has all of; None: it was token ids.
            token_ids: All of it.
            tokenizer: The model's.
        """
        text = tokenizer.decode(token_ids, skip_special_tokens=False)
        return cls(text, token_ids) if given is None else cls(given, token_ids, max(text.find(given), 0))

    def logprobs(
        self, told: Sequence[TokenLogprob | None] | None, tokenizer: Tokenizer, *, top: int
    ) -> CompletionLogprobs:
        """Of the prompt's tokens.

        Args:
            told: One for each; None for the first. None: the answer ended before the prompt was computed.
            tokenizer: The model's.
            top: How many alternatives are given at each place.
        """
        found = no_logprobs()
        for token, token_id in zip(told or [None] * len(self.token_ids), self.token_ids, strict=True):
            if token is None:
                found["tokens"].append(shown(tokenizer.token_bytes(token_id)))
                found["token_logprobs"].append(None)
                found["top_logprobs"].append(None)
                found["text_offset"].append(0)
            else:
                at = min(max(token.text_offset - self.hidden, 0), len(self.text))
                _add(found, token, at=at, top=top)
        return found


def prompt_logprobs(
    told: Sequence[TokenLogprob | None], *, top: int
) -> list[dict[int, PromptLogprob] | None]:
    """Of a prompt's tokens in vLLM's form: by token id, with ``top`` alternatives."""
    return [None if token is None else _ranked(token, top) for token in told]


def shown(content: bytes) -> str:
    """A token's text; bytes that are no whole character as OpenAI writes them."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)


def _add(found: CompletionLogprobs, token: TokenLogprob, *, at: int, top: int | None = None) -> None:
    text, logprob = shown(token.token_bytes), logprob_of(token)
    likeliest: dict[str, float] = {}
    # two tokens may have one text: the likelier of them is told
    for other in token.top[:top]:
        likeliest.setdefault(shown(other.token_bytes), logprob_of(other))
    likeliest.setdefault(text, logprob)
    found["tokens"].append(text)
    found["token_logprobs"].append(logprob)
    found["top_logprobs"].append(likeliest)
    found["text_offset"].append(at)


def _ranked(token: TokenLogprob, top: int) -> dict[int, PromptLogprob]:
    found: dict[int, PromptLogprob] = {
        token.token_id: {
            "logprob": logprob_of(token),
            "rank": token.rank,
            "decoded_token": token.token,
        }
    }
    for place, other in enumerate(token.top[:top], start=1):
        found.setdefault(
            other.token_id,
            {"logprob": logprob_of(other), "rank": place, "decoded_token": other.token},
        )
    return found
