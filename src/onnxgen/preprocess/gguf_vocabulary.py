"""The vocabulary of a GGUF file: its tokens, what each is for, and the ids with a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from onnxgen.errors import TokenizerError
from onnxgen.foundations.suggest import did_you_mean

TEMPLATE_KEY = "tokenizer.chat_template"
TOKENS_KEY = "tokenizer.ggml.tokens"
TYPES_KEY = "tokenizer.ggml.token_type"
ID_KEYS = MappingProxyType(
    {
        "bos_token": "tokenizer.ggml.bos_token_id",
        "eos_token": "tokenizer.ggml.eos_token_id",
        "unk_token": "tokenizer.ggml.unknown_token_id",
        "sep_token": "tokenizer.ggml.seperator_token_id",  # the format spells it so
        "pad_token": "tokenizer.ggml.padding_token_id",
        "mask_token": "tokenizer.ggml.mask_token_id",
        "eot_token": "tokenizer.ggml.eot_token_id",
        "eom_token": "tokenizer.ggml.eom_token_id",
    }
)


class TokenType(IntEnum):
    """What a token is for, as GGUF numbers it."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """A vocabulary, checked.

    Attributes:
        tokens: Texts by id.
        types: What each is for, by id.
        scores: Scores by id, None where the file has none.
        named: Ids of ``bos_token``, ``eos_token``, ... as far as the file names them.
    """

    tokens: Sequence[str]
    types: Sequence[TokenType]
    scores: Sequence[float] | None
    named: Mapping[str, int]

    def text(self, name: str) -> str | None:
        """Text of a named token."""
        return self.tokens[self.named[name]] if name in self.named else None


def read_vocabulary(metadata: Mapping[str, Any], *, defaults: Mapping[str, int]) -> GgufVocabulary:
    """Take the vocabulary out of a file's metadata.

    Args:
        metadata: All keys and values of the file.
        defaults: Ids that named tokens have where the file does not say.

    Raises:
        TokenizerError: A key is missing or contradicts another.
    """
    tokens = [str(token) for token in require(metadata, TOKENS_KEY)]
    if not tokens:
        raise TokenizerError(f"GGUF key {TOKENS_KEY!r} is an empty list")
    types = _types(metadata, len(tokens))
    named = _named(metadata, len(tokens), defaults)
    for name in ("bos_token", "eos_token", "eot_token", "eom_token"):
        # Some converters leave the end of a turn an ordinary token; as text it would be cut into pieces.
        if name in named and types[named[name]] is TokenType.NORMAL and _looks_special(tokens[named[name]]):
            types[named[name]] = TokenType.CONTROL
    return GgufVocabulary(tokens, types, _scores(metadata, len(tokens)), named)


def require(metadata: Mapping[str, Any], key: str) -> Any:
    """Value of a key that must be there.

    Raises:
        TokenizerError: It is not; the message names it.
    """
    if key not in metadata:
        near = did_you_mean(key, metadata)
        raise TokenizerError(f"the GGUF metadata has no key {key!r}, so no tokenizer can be made of it{near}")
    return metadata[key]


def flag(metadata: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A truth value, or the default where the key is missing."""
    return bool(metadata.get(key, default))


def _types(metadata: Mapping[str, Any], length: int) -> list[TokenType]:
    if TYPES_KEY not in metadata:
        return [TokenType.NORMAL] * length
    numbers = [int(number) for number in cast("Sequence[Any]", metadata[TYPES_KEY])]
    _check_length(TYPES_KEY, len(numbers), length)
    known = {int(kind): kind for kind in TokenType}
    return [known.get(number, TokenType.UNDEFINED) for number in numbers]


def _scores(metadata: Mapping[str, Any], length: int) -> Sequence[float] | None:
    key = "tokenizer.ggml.scores"
    if key not in metadata:
        return None
    scores = cast("list[float]", np.asarray(metadata[key], np.float64).tolist())
    _check_length(key, len(scores), length)
    return scores


def _named(metadata: Mapping[str, Any], length: int, defaults: Mapping[str, int]) -> dict[str, int]:
    named: dict[str, int] = {}
    for name, key in ID_KEYS.items():
        token_id = metadata.get(key, defaults.get(name))
        if token_id is None or int(token_id) in (-1, 0xFFFF_FFFF):  # two ways to write "none"
            continue
        if not 0 <= int(token_id) < length:
            if key not in metadata:
                continue
            raise TokenizerError(f"GGUF key {key!r} is {token_id}, but ids go from 0 to {length - 1}")
        named[name] = int(token_id)
    return named


def _check_length(key: str, found: int, expected: int) -> None:
    if found != expected:
        raise TokenizerError(f"GGUF key {key!r} has {found} entries, but {TOKENS_KEY!r} has {expected}")


def _looks_special(token: str) -> bool:
    return len(token) > 2 and (token[0], token[-1]) in (("<", ">"), ("[", "]"))
