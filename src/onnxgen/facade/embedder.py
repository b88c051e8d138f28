"""`Embedder`: texts to vectors, with an encoder or with the hidden states of a decoder."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from onnxgen.backends.base import Backend
from onnxgen.engine.request import check_ids
from onnxgen.engine.sampling.checks import check_integer
from onnxgen.errors import ContextLengthError, OptionError, StateError
from onnxgen.facade.model import Model
from onnxgen.facade.pooling import Float32Array, Pooling, check_pooling, normalized, read_sentence_config
from onnxgen.facade.prompts import Prompts, prompts_of
from onnxgen.facade.text_frame import TextFrame
from onnxgen.facade.vector_sources import VectorSource, open_source
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.preprocess.long_texts import check_length

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

_BATCH_TOKENS = 2048
_ENCODED_CHARACTERS = 2**20
"""Of texts that are encoded together."""
_MAX_CUT_TOKENS = 2**20
"""Of a text from which something is cut; a far longer one is refused."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors of some texts.

    Attributes:
        vectors: float32 ``[texts, dim]``.
        num_tokens: Tokens of each text that the model saw.
        truncated: Whether each text was cut.
    """

    vectors: Float32Array
    num_tokens: tuple[int, ...]
    truncated: tuple[bool, ...]

    @property
    def total_tokens(self) -> int:
        """Tokens of all texts."""
        return sum(self.num_tokens)


class Embedder:
    """Turns texts into vectors. May be used from several threads.

    A folder with an ``.onnx`` file and a ``tokenizer.json``, but without metadata of a decoder, is an encoder (as
    sentence-transformers keeps them); anything else is a decoder, found, fetched and built as `LLM` does.

    Args:
        model: A folder of either kind, a name or reference of a decoder, or a loaded `Model`, which stays the caller's.
        pooling: ``auto`` takes what the folder's ``modules.json`` says, else ``mean`` for an encoder and ``last`` for a
            decoder. ``cls`` is the state of the first token.
        normalize: Give vectors of length 1.
        max_length: The longest text in tokens, at most the model's own; None takes that.
        batch_tokens: About how many tokens go through the model at once.
        config: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        backend: An executor of a decoder that is loaded already. It stays the caller's to close.

    Raises:
        OptionError: An option is out of range.
        ModelNotFoundError: There is no such model.
        ModelFileError: A file of it is missing or wrong.
        CapabilityError: A decoder's hidden states cannot be had, or an encoder has other inputs than text.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model,
        *,
        pooling: Literal["auto", "mean", "last", "cls"] = "auto",
        normalize: bool = True,
        max_length: int | None = None,
        batch_tokens: int = _BATCH_TOKENS,
        config: RuntimeConfig | None = None,
        backend: Backend | None = None,
    ) -> None:
        asked = check_pooling(pooling)
        check_integer("batch_tokens", batch_tokens, low=1)
        if max_length is not None:
            check_integer("max_length", max_length, low=1)
        _check_switch("normalize", normalize)
        source = open_source(model, config, backend)
        said = read_sentence_config(source.folder)
        limits = [n for n in (source.max_length, said.max_length) if n is not None]
        if max_length is not None and limits and max_length > min(limits):
            raise OptionError(
                f"max_length is {max_length}; {source.folder} takes {min(limits)} tokens at most"
            )
        self._source: VectorSource | None = source
        self._max_length = max_length or min(limits, default=None)
        self._normalize, self._batch_tokens = normalize, batch_tokens
        self._pooling: Pooling | None = source.choose_pooling(asked, said.pooling)
        self._frame = TextFrame(source.tokenizer)

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to token ids and back.

        Raises:
            StateError: The embedder was closed.
        """
        return self._open_source.tokenizer

    @property
    def pooling(self) -> Pooling | None:
        """How states of tokens become one vector; None for a graph that pools by itself."""
        return self._pooling

    @property
    def max_length(self) -> int | None:
        """The longest text in tokens; None where nothing limits it."""
        return self._max_length

    def embed(self, texts: Prompts, *, dimensions: int | None = None, truncate: bool = False) -> Float32Array:
        """Vectors of texts, float32 ``[n, dim]``; see `embed_counted`."""
        return self.embed_counted(texts, dimensions=dimensions, truncate=truncate).vectors

    def embed_counted(
        self,
        texts: Prompts,
        *,
        dimensions: int | None = None,
        truncate: bool = False,
        turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> Embeddings:
        """Vectors of texts, and how many tokens they took.

        Which texts are given together changes a vector within the tolerance of floats only.

        Args:
            texts: One or more texts, or lists of token ids, which are taken as they are, with the special tokens that
                they have.
            dimensions: Keep that many components (of models that were trained for it: Matryoshka representations,
                arXiv:2205.13147), then normalize again.
            truncate: Cut texts that are too long behind their last token that fits, keeping the special tokens around.
            turn: Held around each batch that goes through the model, for callers that take turns, or stop: what it
                raises ends the work.

        Raises:
            OptionError: There are no texts, one of them has no tokens, or ``dimensions`` is out of range.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: A text is too long, and ``truncate`` is False.
            StateError: The embedder was closed.
            BackendError: The model failed.
        """
        source = self._open_source
        _check_switch("truncate", truncate)
        if dimensions is not None:
            check_integer("dimensions", dimensions, low=1)
        given, _ = prompts_of(texts, name="texts")
        if not given:
            raise OptionError("there are no texts to embed")
        longest = self._max_length
        if longest is not None and truncate:
            longest = max(longest, _MAX_CUT_TOKENS)
        encoded = [
            self._fitted(i, ids, truncate=truncate)
            for i, ids in enumerate(self._encoded(given, source, longest))
        ]
        # texts of like lengths go together
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0]))
        parts: list[Float32Array] = []
        for batch in _batches(order, [len(ids) for ids, _ in encoded], self._batch_tokens):
            with turn():
                parts.append(source.vectors([encoded[i][0] for i in batch], self._pooling))
        sorted_vectors = np.concatenate(parts)
        vectors = np.empty_like(sorted_vectors)
        vectors[order] = sorted_vectors
        return Embeddings(
            self._finished(vectors, dimensions),
            tuple(len(ids) for ids, _ in encoded),
            tuple(cut for _, cut in encoded),
        )

    @property
    def _open_source(self) -> VectorSource:
        if self._source is None:
            raise StateError("this embedder was closed; make a new one")
        return self._source

    def close(self) -> None:
        """Release what was loaded here. Calling it twice is harmless."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _encoded(
        self, given: Sequence[str | list[int]], source: VectorSource, longest: int | None
    ) -> Iterator[list[int]]:
        """Token ids of each text, some texts ahead: a tokenizer takes far more memory than the texts."""
        tokenizer = source.tokenizer
        ahead: deque[list[int]] = deque()
        for place, each in enumerate(given):
            if not isinstance(each, str):
                yield check_ids(each, tokenizer.vocab_size, what=f"text {place}").tolist()
                continue
            if not ahead:
                ahead += self._frame.encode(_first_texts(given[place:], longest, tokenizer))
            yield ahead.popleft()

    def _fitted(self, index: int, ids: list[int], *, truncate: bool) -> tuple[list[int], bool]:
        if not ids:
            raise OptionError(f"text {index} has no tokens")
        limit = self._max_length
        if limit is None or len(ids) <= limit:
            return ids, False
        if not truncate:
            raise ContextLengthError(
                f"text {index} has {len(ids)} tokens, {limit} fit; shorten it, or cut it with truncate=True"
            )
        return self._frame.cut(ids, limit), True

    def _finished(self, vectors: Float32Array, dimensions: int | None) -> Float32Array:
        if dimensions is not None:
            if dimensions > vectors.shape[1]:
                raise OptionError(f"dimensions is {dimensions}; this model's vectors have {vectors.shape[1]}")
            vectors = vectors[:, :dimensions]
        return normalized(vectors) if self._normalize else np.ascontiguousarray(vectors)


def _first_texts(given: Sequence[str | list[int]], longest: int | None, tokenizer: Tokenizer) -> list[str]:
    """The first texts, as many as are encoded together."""
    found: list[str] = []
    room = _ENCODED_CHARACTERS
    for text in (each for each in given if isinstance(each, str)):
        if found and len(text) > room:
            break
        if longest is not None:
            check_length(text, longest, tokenizer=tokenizer)
        found.append(text)
        room -= len(text)
    return found


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, got {value!r:.60}")


def _batches(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Texts in batches whose padded rectangle is at most ``budget`` tokens, or of one text.

    Lengths grow along ``order``, so that the last of a batch is its longest.
    """
    batches: list[list[int]] = []
    for i in order:
        if not batches or (len(batches[-1]) + 1) * lengths[i] > budget:
            batches.append([])
        batches[-1].append(i)
    return batches
