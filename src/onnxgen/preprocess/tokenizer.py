"""`Tokenizer`: text to ids and back, from the ``tokenizer.json`` of a model folder."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.errors import OptionError, TokenIdError
from onnxgen.preprocess.byte_level_decoder import simplified_decoder
from onnxgen.preprocess.special_text import SpecialText
from onnxgen.preprocess.stream_decoder import token_bytes_reader
from onnxgen.preprocess.tokenizer_file import load_tokenizer_file
from onnxgen.preprocess.tokenizer_settings import TokenizerSettings, read_tokenizer_settings
from onnxgen.preprocess.vocabulary import AddedToken, UnusedIds, added_tokens, unused_ids

if TYPE_CHECKING:
    import tokenizers

_REMEMBERED_TOKENS = 32768
_REMEMBERED = 16
"""So many searches of the vocabulary of each kind are kept."""


class Tokenizer:
    """Text to token ids and back, safe to use from several threads.

    What the tokenizer does is decided by the content of ``tokenizer.json`` alone; the class name that
    ``tokenizer_config.json`` may hold is not looked at.

    Attributes:
        folder: The folder it was loaded from.
        added_tokens: Tokens that are found in text as a whole, with their flags, by id.
        special_ids: Ids of those that are special.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        folder: Path,
        settings: TokenizerSettings,
        model_vocab_size: int | None = None,
    ) -> None:
        # Files may ship with the truncation and padding of somebody's training run.
        backend.no_truncation()
        backend.no_padding()
        self.folder = folder
        self._backend = backend
        self._settings = settings
        # As many different ids as tokens: all below this are in the vocabulary, some above may be too.
        self._sure_ids = max(backend.get_vocab_size(with_added_tokens=True), model_vocab_size or 0)
        self._model_vocab_size = model_vocab_size or 0
        self._plain_backend: tokenizers.Tokenizer | None = None
        self._plain_lock = threading.Lock()
        self.added_tokens: tuple[AddedToken, ...] = added_tokens(backend)
        self.special_ids: frozenset[int] = frozenset(t.id for t in self.added_tokens if t.special)
        self._prefix_ids, self._suffix_ids = self._ids_to_add()
        self._contents = lru_cache(maxsize=_REMEMBERED_TOKENS)(self._content)
        self._ids_holding = lru_cache(maxsize=_REMEMBERED)(self._find_ids_holding)
        self._decoder_specs = lru_cache(maxsize=_REMEMBERED)(self._simplified)

    @classmethod
    def from_folder(cls, folder: str | Path, *, model_vocab_size: int | None = None) -> Tokenizer:
        """Load the tokenizer of a model folder.

        Args:
            folder: Folder with ``tokenizer.json`` and, optionally, ``tokenizer_config.json`` and
                ``special_tokens_map.json``.
            model_vocab_size: Rows of the model's embedding where that is more than the tokenizer has
                tokens. The ids in between decode to nothing.

        Raises:
            TokenizerError: ``tokenizer.json`` is missing, broken or of an unknown kind.
        """
        folder = Path(folder)
        backend = load_tokenizer_file(folder)
        settings = read_tokenizer_settings(folder)
        return cls(backend, folder=folder, settings=settings, model_vocab_size=model_vocab_size)

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest id that is a token; the model may have more rows than that."""
        size = self._backend.get_vocab_size(with_added_tokens=True)
        highest = max((token.id for token in self.added_tokens), default=-1)
        if highest < size and self._backend.id_to_token(size) is None and self._is_dense(size):
            return size
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def bos_token(self) -> str | None:
        """Text of the token that begins a sequence, if the folder names one."""
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """Text of the token that ends a sequence, if the folder names one."""
        return self.special_tokens.get("eos_token")

    @property
    def pad_token(self) -> str | None:
        """Text of the padding token, if the folder names one."""
        return self.special_tokens.get("pad_token")

    @cached_property
    def special_tokens(self) -> dict[str, str]:
        """Texts of the special tokens the folder names, by ``bos_token``, ``eos_token``, ``unk_token``, ..."""
        return dict(self._settings.special_tokens)

    @cached_property
    def special_text(self) -> SpecialText:
        """Finds special tokens in text, and encodes text in which only some of them count."""
        return SpecialText(self._backend, self.added_tokens)

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """The object of the ``tokenizers`` library behind this one. Do not change it."""
        return self._backend

    @cached_property
    def decoder_spec(self) -> Mapping[str, Any] | None:
        """The ``decoder`` section of ``tokenizer.json``, or None where there is none."""
        decoder = self._backend.decoder
        return None if decoder is None else json.loads(decoder.__getstate__())

    def decoder_spec_without(self, skipped: frozenset[int]) -> Mapping[str, Any] | None:
        """What `decoder_spec` comes to for text that has none of these tokens, in as few steps as can be."""
        return self._decoder_specs(skipped)

    def _simplified(self, skipped: frozenset[int]) -> Mapping[str, Any] | None:
        vocabulary = self._backend.get_vocab
        return simplified_decoder(
            self.decoder_spec, lambda: (token for token, i in vocabulary(True).items() if i not in skipped)
        )

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]:
        """Turn text into ids.

        Args:
            text: Any text; lone surrogates are read as U+FFFD.
            add_special_tokens: Add what the tokenizer puts around a sequence: the post-processor of
                ``tokenizer.json``, or, where that adds nothing, ``add_bos_token`` and ``add_eos_token``.
            parse_special: With False the text of special tokens (``<|im_end|>`` and the like) is encoded as
                the text it is. Added tokens that are not special are found in either case.

        Raises:
            OptionError: It is no text.
        """
        return self.encode_batch([text], add_special_tokens=add_special_tokens, parse_special=parse_special)[
            0
        ]

    def encode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = False, parse_special: bool = True
    ) -> list[list[int]]:
        """Turn several texts into ids, each as `encode` does; lists keep their own lengths."""
        backend = self._backend if parse_special else self._plain()
        clean = [_without_surrogates(text) for text in texts]
        encodings = backend.encode_batch_fast(clean, add_special_tokens=add_special_tokens)
        if add_special_tokens:
            return [[*self._prefix_ids, *encoding.ids, *self._suffix_ids] for encoding in encodings]
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Turn ids into text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            TokenIdError: An id is outside the vocabulary.
        """
        checked = [self.check_id(i) for i in ids]
        return self._backend.decode(checked, skip_special_tokens=skip_special_tokens)

    def decode_batch(
        self, sequences: Iterable[Iterable[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Turn several sequences of ids into texts, each as `decode` does."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in sequences]

    def token_bytes(self, token_id: int) -> bytes:
        """Exact bytes that a token adds to a text, also where they are only part of a character.

        They are the bytes that the token has in the middle of a text: a SentencePiece token that begins a
        word begins with a space, which is gone where the decoder strips the beginning of the whole text. A
        special token has the bytes of its own text, an id without a token has none.

        Raises:
            TokenIdError: The id is outside the vocabulary.
        """
        return self._contents(self.check_id(token_id))

    def token_text(self, token_id: int) -> str:
        """Text of `token_bytes`; bytes that are only part of a character become U+FFFD.

        Raises:
            TokenIdError: The id is outside the vocabulary.
        """
        return self.token_bytes(token_id).decode(errors="replace")

    def token_bytes_table(self) -> tuple[bytes, ...]:
        """`token_bytes` of all ids, those of padded rows of the model too; made once, when first asked for."""
        return self._token_bytes

    def ids_holding(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Ids of all tokens whose bytes hold one of some texts; the last answers are remembered."""
        return self._ids_holding(tuple(texts))

    def unused_ids(self, model_vocab_size: int) -> UnusedIds:
        """Ids of the model that are no token.

        Args:
            model_vocab_size: Rows of the model's logits.
        """
        return unused_ids(self._backend, vocab_size=self.vocab_size, rows=model_vocab_size)

    def check_id(self, token_id: int) -> int:
        """Give the id back as an ``int``.

        Raises:
            TokenIdError: The id is outside the vocabulary.
        """
        token_id = int(token_id)
        if 0 <= token_id < self._sure_ids:
            return token_id
        limit = max(self.vocab_size, self._model_vocab_size)
        if not 0 <= token_id < limit:
            raise TokenIdError(
                f"token id {token_id} is outside the vocabulary of {self.folder.name}: ids go from 0 to {limit - 1}"
            )
        return token_id

    def token_to_id(self, token: str) -> int | None:
        """Id of a token by its exact text in the vocabulary, or None."""
        return self._backend.token_to_id(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Text of a token in the vocabulary (not decoded), or None for an id without a token."""
        return self._backend.id_to_token(token_id) if 0 <= token_id < 2**32 else None

    @cached_property
    def _read_bytes(self) -> Callable[[str], bytes]:
        return token_bytes_reader(self.decoder_spec)

    @cached_property
    def _token_bytes(self) -> tuple[bytes, ...]:
        rows = max(self.vocab_size, self._model_vocab_size)
        names, read, special = self._backend.id_to_token, self._read_bytes, self.special_ids
        tokens = ((i, names(i)) for i in range(rows))
        return tuple(
            b"" if token is None else token.encode() if i in special else read(token) for i, token in tokens
        )

    def _content(self, token_id: int) -> bytes:
        token = self.id_to_token(token_id)
        if token is None:
            return b""
        return token.encode() if token_id in self.special_ids else self._read_bytes(token)

    def _find_ids_holding(self, texts: tuple[str, ...]) -> tuple[int, ...]:
        if not texts:
            return ()
        # one search for all texts: each by itself takes seconds for a hundred of them
        holds = re.compile(b"|".join(re.escape(_without_surrogates(text).encode()) for text in texts)).search
        return tuple(token for token, content in enumerate(self._token_bytes) if holds(content))

    def _is_dense(self, size: int) -> bool:
        id_to_token = self._backend.id_to_token
        return all(id_to_token(i) is not None for i in range(size))

    def _ids_to_add(self) -> tuple[list[int], list[int]]:
        if self._backend.num_special_tokens_to_add(is_pair=False):
            return [], []
        return (
            self._named_ids(self._settings.add_bos, self.bos_token),
            self._named_ids(self._settings.add_eos, self.eos_token),
        )

    def _named_ids(self, wanted: bool | None, token: str | None) -> list[int]:
        token_id = self.token_to_id(token) if wanted and token is not None else None
        return [] if token_id is None else [token_id]

    def _plain(self) -> tokenizers.Tokenizer:
        # Whether special tokens are found in text is a state of the library's object, and other threads
        # may be encoding with that one: keep a second object for the other state.
        with self._plain_lock:
            if self._plain_backend is None:
                import tokenizers

                plain = tokenizers.Tokenizer.from_str(self._backend.to_str())
                plain.encode_special_tokens = True
                self._plain_backend = plain
            return self._plain_backend


def _without_surrogates(text: object) -> str:
    if not isinstance(text, str):
        raise OptionError(f"only text can be encoded, got {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
