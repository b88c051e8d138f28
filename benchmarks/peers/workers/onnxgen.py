"""onnxgen's own backends, step by step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.workers.serving import StreamTimes, serve


class Onnxgen:
    """A model folder of onnxgen in one of its backends."""

    def __init__(self, folder: Path, threads: int, backend: str) -> None:
        from onnxgen.backends import load_backend
        from onnxgen.foundations.runtime_config import RuntimeConfig
        from onnxgen.metadata import load_model_spec

        config = RuntimeConfig(backend=backend, threads=threads)
        self._chunk_tokens = config.prefill_chunk_tokens
        self._backend = load_backend(load_model_spec(folder).decoder, config)

    def prefill(self, prompt: Sequence[int]) -> float:
        return self.streams([prompt], 1).total_s

    def decode(self, prompt: Sequence[int], new_tokens: int) -> float:
        return self.streams([prompt], new_tokens).decode_s

    def streams(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> StreamTimes:
        from onnxgen.backends.timed_steps import time_answers

        times = time_answers(self._backend, prompts, new_tokens, chunk_tokens=self._chunk_tokens)
        return StreamTimes(times.decode_s, times.total_s)


if __name__ == "__main__":
    name = sys.argv[1]
    serve(lambda folder, threads: Onnxgen(folder, threads, name), ["onnxgen", "onnxruntime"])
