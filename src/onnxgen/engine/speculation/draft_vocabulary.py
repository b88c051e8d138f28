"""`check_draft_vocabulary`: whether what a draft model guesses means the same to the model that checks it."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.errors import ConfigError
from onnxgen.preprocess.tokenizer import Tokenizer


def check_draft_vocabulary(
    target: Tokenizer,
    draft: Tokenizer,
    *,
    target_rows: int,
    draft_rows: int,
    target_eos: Sequence[int],
    draft_eos: Sequence[int],
) -> None:
    """Refuse a draft model of another vocabulary.

    Every id that both tokenizers know must be the same token, of the same kind. One of them may have added tokens behind
    those of the other (an image's place, say), and rows of logits may be padded differently: such ids are never guessed.

    Args:
        target: Tokenizer of the model that checks.
        draft: Tokenizer of the draft model.
        target_rows: Width of the former's logits.
        draft_rows: Width of the latter's.
        target_eos: Ids that end an answer of the former.
        draft_eos: Ids that end an answer of the latter; one of them must be among the others.

    Raises:
        ConfigError: Naming the first token that differs, or both sizes.
    """
    names = f"the model in {target.folder} and the draft model in {draft.folder}"
    own, others = _tokens(target), _tokens(draft)
    common = min(len(own), len(others))
    for token_id, (one, other) in enumerate(zip(own, others, strict=False)):
        if one != other:
            raise ConfigError(
                f"{names} have different vocabularies: token {token_id} is {_shown(one)} in one and {_shown(other)} in "
                f"the other, of {len(own)} and {len(others)} tokens; take a draft model of the same family"
            )
    added = {token.id for token in (*target.added_tokens, *draft.added_tokens)}
    for longer in (own, others):
        surplus = [i for i in range(common, len(longer)) if longer[i] is not None and i not in added]
        if surplus:
            raise ConfigError(
                f"{names} have different vocabularies: of {len(own)} and {len(others)} tokens, token {surplus[0]}, "
                f"{_shown(longer[surplus[0]])}, is in one only; take a draft model of the same family"
            )
    least = 1 + max((i for i in range(common) if own[i] is not None and i not in added), default=-1)
    if min(target_rows, draft_rows) < least:
        raise ConfigError(
            f"{names} have logits of {target_rows} and {draft_rows} tokens, which is less than the {least} of their "
            "vocabulary"
        )
    ends = {i: token.special for token in target.added_tokens if (i := token.id) < common}
    for token in draft.added_tokens:
        if ends.get(token.id, token.special) != token.special:
            kinds = ("a special token", "none")
            first, second = kinds if ends[token.id] else reversed(kinds)
            raise ConfigError(
                f"{names} have different vocabularies: token {token.id}, {_shown(token.text)}, is {first} in one and "
                f"{second} in the other"
            )
    if target_eos and draft_eos and not set(target_eos) & set(draft_eos):
        raise ConfigError(
            f"{names} end answers with different tokens: {_listed(target_eos, own)} and {_listed(draft_eos, others)}; "
            "take a draft model that was trained for the same kind of answers"
        )


def _tokens(tokenizer: Tokenizer) -> list[str | None]:
    """Texts by id; None of ids that are no token."""
    texts: list[str | None] = [None] * tokenizer.vocab_size
    for text, token_id in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        texts[token_id] = text
    return texts


def _shown(text: str | None) -> str:
    return "no token" if text is None else repr(text)


def _listed(ids: Sequence[int], texts: Sequence[str | None]) -> str:
    return ", ".join(f"{i} ({_shown(texts[i] if i < len(texts) else None)})" for i in ids)
