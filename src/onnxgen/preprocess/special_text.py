"""`SpecialText`: special tokens in a text, and a text in which only some of them count."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onnxgen.preprocess.shadow_text import PUNCTUATION, without_noncharacters
from onnxgen.preprocess.vocabulary import AddedToken

if TYPE_CHECKING:
    import tokenizers


class SpecialSpan(NamedTuple):
    """A special token in a text: ``text[begin:end]``."""

    begin: int
    end: int
    token_id: int


class SpecialText:
    """Knows the special tokens of a tokenizer by their texts. May be used from several threads.

    Args:
        backend: The tokenizer; it is not changed.
        tokens: Its added tokens.

    Attributes:
        edges: Punctuation that special tokens begin and end with. Text without it is part of none.
        words: Texts of special tokens that have no punctuation at all.
    """

    def __init__(self, backend: tokenizers.Tokenizer, tokens: Sequence[AddedToken]) -> None:
        self._backend = backend
        self._tokens = {token.text: token for token in tokens if token.text}
        self._lengths: dict[str, list[int]] = {}
        for text in self._tokens:
            lengths = self._lengths.setdefault(text[0], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        for lengths in self._lengths.values():
            lengths.sort(reverse=True)
        self._first = re.compile(f"[{''.join(map(re.escape, self._lengths))}]") if self._lengths else None
        edges: set[str] = set()
        words: set[str] = set()
        for token in tokens:
            # Names are made of letters and underscores: those of fields and arguments stay as they are.
            marks = [c for c in token.text if c in PUNCTUATION and c != "_"]
            if token.special and marks:
                edges |= {marks[0], marks[-1]}
            elif token.special:
                words.add(token.text)
        self.edges = frozenset(edges)
        self.words = frozenset(words)
        self._aliases: _Aliases | None = None
        self._lock = threading.Lock()

    def spans(self, text: str) -> list[SpecialSpan]:
        """Special tokens in a text, in order: the leftmost ones, of those the longest, as tokenizers find them."""
        found: list[SpecialSpan] = []
        end = 0
        for match in self._first.finditer(text) if self._first else ():
            begin = match.start()
            if begin < end:
                continue
            for length in self._lengths[match[0]]:
                token = self._tokens.get(text[begin : begin + length])
                if token is not None and begin + length <= len(text):
                    end = begin + length
                    if token.special:
                        found.append(SpecialSpan(begin, end, token.id))
                    break
        return found

    def encode(self, text: str, spans: Iterable[SpecialSpan]) -> list[int]:
        """Ids of a text in which the special tokens at ``spans``, and no others, are tokens.

        Where these are all there are, that is what the tokenizer makes of the text. Noncharacters U+FDD0 to
        U+FDEF are read as U+FFFD.
        """
        with self._lock:
            if self._aliases is None:
                special = [token for token in self._tokens.values() if token.special]
                self._aliases = _Aliases(self._backend, special)
        pieces: list[str] = []
        at = 0
        for span in spans:
            pieces += [without_noncharacters(text[at : span.begin]), _alias(span.token_id)]
            at = span.end
        pieces.append(without_noncharacters(text[at:]))
        return self._aliases.encode("".join(pieces))


class _Aliases:
    """A copy of a tokenizer that finds special tokens by other texts, which no text has, than their own."""

    def __init__(self, backend: tokenizers.Tokenizer, special: Sequence[AddedToken]) -> None:
        import tokenizers

        self._backend = tokenizers.Tokenizer.from_str(backend.to_str())
        self._backend.encode_special_tokens = True
        self._backend.add_tokens(
            [
                tokenizers.AddedToken(
                    _alias(token.id),
                    lstrip=token.lstrip,
                    rstrip=token.rstrip,
                    single_word=token.single_word,
                    normalized=token.normalized,
                    special=False,
                )
                for token in special
            ]
        )
        ids = ((self._backend.token_to_id(_alias(token.id)), token.id) for token in special)
        self._token_ids = {alias: token_id for alias, token_id in ids if alias is not None}

    def encode(self, text: str) -> list[int]:
        ids = self._backend.encode(text, add_special_tokens=False).ids
        return [self._token_ids.get(i, i) for i in ids]


def _alias(token_id: int) -> str:
    return f"\ufdd0{token_id}\ufdd1"
