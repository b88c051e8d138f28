"""`LoadedModel`: a model of the table that is in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.embedder import Embedder
from onnxgen.foundations.process_memory import growth_bytes, resident_bytes
from onnxgen.server.errors import ApiError
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.refusals import was_unloaded

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class LoadedModel:
    """A model in memory: what writes, or what gives vectors.

    Args:
        entry: What the operator says of it.
        llm: What writes.
        embedder: What gives vectors, of a model that only does that.
        open_vectors: Makes what gives vectors of a model that writes; None: it cannot.
        adapters: Names of adapters that requests may ask for.
        loaded_at: When it was ready, in seconds since 1970.
        load_s: How long that took, in seconds.
        memory_bytes: What it added to this process, as far as that was measured.

    Attributes:
        id: What clients call it.
        entry: As given.
        llm: As given.
        adapters: As given.
        loaded_at: As given.
        load_s: As given.
    """

    def __init__(
        self,
        entry: ModelEntry,
        *,
        llm: AsyncLLM | None = None,
        embedder: Embedder | None = None,
        open_vectors: Callable[[], Embedder] | None = None,
        adapters: tuple[str, ...] = (),
        loaded_at: float = 0.0,
        load_s: float = 0.0,
        memory_bytes: int | None = None,
    ) -> None:
        self.id, self.entry, self.llm, self.adapters = entry.id, entry, llm, adapters
        self.loaded_at, self.load_s = loaded_at, load_s
        self.memory_bytes_here = memory_bytes
        self._embedder, self._open_vectors = embedder, open_vectors
        self._lock = threading.Lock()
        self._closed = False

    @property
    def embedder(self) -> Embedder | None:
        """What gives vectors, if that was loaded already."""
        return self._embedder

    @property
    def context_length(self) -> int | None:
        """Tokens that it takes, prompt and answer together; None where nothing limits them."""
        if self.llm is not None:
            return self.llm.context_length
        return None if self._embedder is None else self._embedder.max_length

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to token ids and back.

        Raises:
            ApiError: It was unloaded.
        """
        return self.vectors.tokenizer if self.llm is None else self.llm.tokenizer

    @property
    def text(self) -> AsyncLLM:
        """What writes.

        Raises:
            ApiError: It only gives vectors.
        """
        if self.llm is None:
            raise ApiError(
                400, f"the model {self.id!r} gives vectors and writes nothing; see /v1/models", param="model"
            )
        return self.llm

    @property
    def vectors(self) -> Embedder:
        """What gives vectors.

        Of a model that writes it is made when it is first asked for, which takes as long as loading the model once more:
        ask in a thread.

        Raises:
            ApiError: It cannot give vectors.
            OnnxgenError: It cannot be loaded.
        """
        with self._lock:
            if self._closed:
                raise was_unloaded(self.id)
            if self._embedder is None:
                if self._open_vectors is None:
                    raise ApiError(
                        400, f"the model {self.id!r} gives no vectors; see /v1/models", param="model"
                    )
                before = resident_bytes()
                self._embedder = self._open_vectors()
                self.memory_bytes_here = growth_bytes(before, resident_bytes())
            return self._embedder

    def close(self) -> None:
        """Let go of everything; what is under way ends with an error. Calling it twice is harmless."""
        if self.llm is not None:
            self.llm.close()
        with self._lock:
            self._closed = True
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()
