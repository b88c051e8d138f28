"""The vocabulary as llguidance wants it: bytes of every token, which of them are names, how text is cut."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from onnxgen.errors import GrammarError
from onnxgen.preprocess.grammar_names import is_name
from onnxgen.preprocess.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_SENTINELS = ("", "\n", "a", "0")
_CANONICAL_SAMPLE = ('{"name": "Aa Zz"', "}", '":', "\n  [true, -12.5]", "Zürich \N{SNOWMAN}", " a", "b")
_REMEMBERED, _LONGEST_REMEMBERED = 4096, 256
"""Texts whose tokens are kept, and their longest, in characters: what a grammar forces comes again with every answer."""

_IN_STRINGS = r'[^"\\\x00-\x1F\x7F]'
_SLICES = (
    r"[\x20\x0A\x0D\x09]+",
    *(_IN_STRINGS + f"{{1,{length}}}" for length in (2, 4, 6, 8, 10, 15, 20, 30)),
    _IN_STRINGS + "+",
)
"""Groups of tokens that are allowed as a whole where all of a string's characters are, up to so many of them."""

_NEVER_TEXT = re.compile(rb"[\xC0\xC1\xF5-\xFF]")
"""Bytes that no UTF-8 text holds. llguidance marks names with one of them."""


class Vocabulary:
    """Tokens of a model, for masks.

    Special tokens, and added tokens that look like ``<...>``, are names: a grammar can say them, and they are
    allowed nowhere else, whatever their text. Ids without a token, and rows beyond the tokenizer's, are
    allowed nowhere at all.

    Args:
        tokenizer: Gives the tokens.
        vocab_size: Rows of the model's logits; may be more or fewer than the tokenizer has tokens.
        eos_ids: Tokens that end an answer.

    Attributes:
        vocab_size: As given.
        eos_ids: As given, in order, each once.
        is_canonical: The tokenizer gives the text back that it is given, so tokens for a text are its own.

    Raises:
        GrammarError: There is no token to end an answer with, or one is outside the vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int, eos_ids: Sequence[int]) -> None:
        self.vocab_size = vocab_size
        self.eos_ids = tuple(dict.fromkeys(int(i) for i in eos_ids))
        if not self.eos_ids:
            raise GrammarError("grammars need a token that ends an answer, and the model names none")
        for token in self.eos_ids:
            if not 0 <= token < vocab_size:
                raise GrammarError(f"end token {token} is outside the vocabulary of {vocab_size} rows")
        self._tokenizer = tokenizer
        self._names = {t.id for t in tokenizer.added_tokens if is_name(t)} | set(self.eos_ids)
        self._table = _table(tokenizer, vocab_size, self._names)
        self.is_canonical = all(self._tokenize(text) is not None for text in _CANONICAL_SAMPLE)
        self.handle = self._build()

    def _build(self) -> LLTokenizer:
        from llguidance import LLTokenizer

        return LLTokenizer(
            _Wrapper(self),  # pyright: ignore[reportArgumentType] - any object with these attributes will do
            n_vocab=self.vocab_size,
            eos_token=list(self.eos_ids),
            slices=list(_SLICES),
        )

    def cut(self, text: str) -> list[int]:
        """Tokens whose bytes are exactly those of a text: the tokenizer's own where it can, else greedily.

        Raises:
            GrammarError: No tokens have these bytes.
        """
        tokens = self._tokenize(text)
        if tokens is None:
            tokens = self.handle.greedy_tokenize(text)
            if self._spell(tokens) != text.encode():
                raise GrammarError(f"the vocabulary has no tokens for the text {text!r:.60}")
        return tokens

    def _tokenize(self, text: str) -> list[int] | None:
        wanted = text.encode()
        # SentencePiece writes a blank before a text: put something before it that can be cut off again.
        for before in _SENTINELS:
            tokens = self._tokenizer.encode(before + text)
            if not self._names.isdisjoint(tokens):
                # The object that reads special tokens as text is made when first needed, which takes seconds.
                tokens = self._tokenizer.encode(before + text, parse_special=False)
            size = 0
            for place in range(len(tokens), -1, -1):
                if size == len(wanted) and self._spell(tokens[place:]) == wanted:
                    return tokens[place:]
                if place and size < len(wanted):
                    size += len(self._spell(tokens[place - 1 : place]))
        return None

    def _spell(self, tokens: Sequence[int]) -> bytes:
        return b"".join(
            self._table[token] for token in tokens if token < self.vocab_size and token not in self._names
        )


class _Wrapper:
    """What llguidance asks of a tokenizer.

    It lives in an object of llguidance's that the vocabulary has, and through which no collector of circles sees: were the
    vocabulary held here, neither would ever be let go. Whoever follows a grammar holds its vocabulary.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos_ids[0]
        self.tokens = vocabulary._table  # pyright: ignore[reportPrivateUsage]
        self.special_token_ids = sorted(vocabulary._names)  # pyright: ignore[reportPrivateUsage]
        self._cut = cut = _weakly(vocabulary)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(cut)

    def __call__(self, text: str) -> list[int]:
        return self._remembered(text) if len(text) <= _LONGEST_REMEMBERED else self._cut(text)


def _weakly(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    method = weakref.WeakMethod(vocabulary.cut)

    def cut(text: str) -> list[int]:
        alive = method()
        assert alive is not None
        return alive(text)

    return cut


def _table(tokenizer: Tokenizer, vocab_size: int, names: set[int]) -> list[bytes]:
    known = tokenizer.token_bytes_table()[:vocab_size]
    table = [
        spelled if token in names or _NEVER_TEXT.search(spelled) is None else b""
        for token, spelled in enumerate(known)
    ]
    return table + [b""] * (vocab_size - len(table))
