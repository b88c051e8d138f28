"""`VectorWork`: texts to vectors beside everything else: in threads of its own, requests taking turns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

from onnxgen.facade.embedder import Embedder, Embeddings
from onnxgen.facade.prompts import Prompt
from onnxgen.foundations.fair_lock import FairLock

MAX_AT_ONCE = 8
"""Requests that take turns; further ones wait until one of them is done."""


class VectorStoppedError(Exception):
    """Nobody waits for these vectors any more."""


class VectorWork:
    """Texts to vectors, one batch at a time.

    A batch uses all of a model's threads, so two at once would only be in each other's way. Requests take turns after
    each batch: a short one does not wait for all of a long one.
    """

    def __init__(self) -> None:
        self._turns = FairLock()
        self._threads = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="onnxgen-vectors")

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Where to do it, so that long work keeps nothing else waiting."""
        return self._threads

    def embed(
        self,
        embedder: Embedder,
        texts: Sequence[Prompt],
        *,
        dimensions: int | None,
        truncate: bool,
        stop: threading.Event,
    ) -> Embeddings:
        """Vectors of texts; blocks.

        Args:
            embedder: The model.
            texts: Texts, or token ids.
            dimensions: As in `Embedder.embed_counted`.
            truncate: Likewise.
            stop: Ends the work before the next batch.

        Raises:
            VectorStoppedError: It was ended.
            OnnxgenError: As `Embedder.embed_counted`.
        """

        @contextlib.contextmanager
        def turn() -> Generator[None]:
            with self._turns.held():
                if stop.is_set():
                    raise VectorStoppedError("nobody waits for these vectors any more")
                yield

        return embedder.embed_counted(texts, dimensions=dimensions, truncate=truncate, turn=turn)

    def close(self) -> None:
        """Take nothing new. Calling it twice is harmless."""
        self._threads.shutdown(wait=False, cancel_futures=True)
