"""What a vocabulary is made of: its tokens as bytes, its added tokens, the ids that are no token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tokenizers


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in text as a whole, before the text is split into words.

    Attributes:
        id: Its id.
        text: Its text.
        special: It is a control token: decoding leaves it out on request, and
            ``encode(..., parse_special=False)`` does not find it.
        lstrip: Blanks on its left belong to it.
        rstrip: Blanks on its right belong to it.
        single_word: It is found only where no letter, digit or underscore touches it.
        normalized: It is looked for in the normalized text instead of the text as it is.
    """

    id: int
    text: str
    special: bool
    lstrip: bool
    rstrip: bool
    single_word: bool
    normalized: bool


class UnusedIds(NamedTuple):
    """Rows of a model's logits that are no token: nothing should choose them.

    Attributes:
        num_tokens: All ids from here on are no token (padding of the embedding).
        holes: The other ids that are no token, all below ``num_tokens``, in order.
    """

    num_tokens: int
    holes: tuple[int, ...]


def added_tokens(backend: tokenizers.Tokenizer) -> tuple[AddedToken, ...]:
    """The added tokens of a tokenizer, by id."""
    return tuple(
        AddedToken(
            id=token_id,
            text=token.content,
            special=token.special,
            lstrip=token.lstrip,
            rstrip=token.rstrip,
            single_word=token.single_word,
            normalized=token.normalized,
        )
        for token_id, token in sorted(backend.get_added_tokens_decoder().items())
    )


def unused_ids(backend: tokenizers.Tokenizer, *, vocab_size: int, rows: int) -> UnusedIds:
    """Ids in ``[0, rows)`` that are no token.

    Args:
        backend: The tokenizer.
        vocab_size: One more than the largest id that is a token.
        rows: Rows of the model's logits.
    """
    num_tokens = min(vocab_size, rows)
    name = backend.id_to_token
    return UnusedIds(num_tokens, tuple(i for i in range(num_tokens) if name(i) is None))
