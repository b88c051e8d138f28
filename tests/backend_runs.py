"""Run a built model folder through the backend seam: whole prompts, chunks, token by token, greedy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend, KVCache, SequenceInput, pack_step
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec


@dataclass(frozen=True, slots=True)
class BackendRun:
    """A loaded backend, and the length beyond which a sequence must be computed anew."""

    backend: Backend
    rope_switch_length: int | None

    def logits(self, prompt: Sequence[int], *, chunk: int | None = None) -> np.ndarray:
        """Logits of every position, float32 ``[tokens, vocab]``, the prompt given in pieces of ``chunk``."""
        size = chunk or len(prompt)
        with self._sequence(len(prompt)) as sequence:
            for start in range(0, len(prompt), size):
                sequence.append(prompt[start : start + size])
            return sequence.logits

    def greedy(self, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], np.ndarray]:
        """Greedy tokens and the logits each was chosen from, float32 ``[new tokens, vocab]``."""
        with self._sequence(len(prompt) + new_tokens) as sequence:
            rows: list[np.ndarray] = []
            sequence.append(prompt)
            for _ in range(new_tokens):
                rows.append(sequence.logits[-1])
                sequence.append([int(rows[-1].argmax())])
            return sequence.tokens[len(prompt) :], np.stack(rows)

    @contextmanager
    def _sequence(self, num_tokens: int) -> Generator[_Sequence]:
        cache = self.backend.create_cache(num_seqs=1, num_tokens=num_tokens)
        try:
            yield _Sequence(self, cache)
        finally:
            cache.close()


class _Sequence:
    """One sequence in a cache of its own, with the logits of all its positions."""

    def __init__(self, run: BackendRun, cache: KVCache) -> None:
        self._run = run
        self._cache = cache
        self.tokens: list[int] = []
        self.logits = np.empty((0, run.backend.vocab_size), np.float32)

    def append(self, token_ids: Sequence[int]) -> None:
        start = len(self.tokens)
        self.tokens += token_ids
        switch = self._run.rope_switch_length
        if switch is not None and start <= switch < len(self.tokens):
            start = 0
        step = pack_step(
            [
                SequenceInput(
                    self.tokens[start:],
                    context_len=start,
                    blocks=range(self._cache.geometry.num_blocks),
                    logits="all",
                )
            ]
        )
        output = self._run.backend.execute(step, self._cache)
        self.logits = np.concatenate([self.logits[:start], output.logits])


@contextmanager
def open_folder(folder: Path, *, threads: int = 1, backend: str = "ort") -> Generator[BackendRun]:
    """Load a model folder into a backend."""
    spec = load_model_spec(folder)
    loaded = load_backend(spec.decoder, RuntimeConfig(backend=backend, threads=threads))

    try:
        yield BackendRun(loaded, spec.decoder.rope_switch_length)
    finally:
        loaded.close()
