"""onnxruntime-genai: its generator loop; several sequences are a batch of one generator."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.workers.serving import StreamTimes, serve


class Genai:
    """A model folder of onnxruntime-genai."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime_genai

        self._api = onnxruntime_genai
        config = self._api.Config(str(folder))
        options = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._model = self._api.Model(config)

    def prefill(self, prompt: Sequence[int]) -> float:
        # one more than is generated: a generator that is full would end within the measured time
        generator = self._generator([prompt], 2)
        started = time.perf_counter()
        self._first_tokens(generator, [prompt])
        return time.perf_counter() - started

    def decode(self, prompt: Sequence[int], new_tokens: int) -> float:
        return self.streams([prompt], new_tokens).decode_s

    def streams(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> StreamTimes:
        generator = self._generator(prompts, new_tokens)
        started = time.perf_counter()
        self._first_tokens(generator, prompts)
        first = time.perf_counter()
        for _ in range(new_tokens - 1):
            generator.generate_next_token()
        ended = time.perf_counter()
        return StreamTimes(ended - first, ended - started)

    def _first_tokens(self, generator: Any, prompts: Sequence[Sequence[int]]) -> None:
        generator.append_tokens(np.array(prompts, np.int32).squeeze())
        generator.generate_next_token()

    def _generator(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Any:
        total = len(prompts[0]) + new_tokens
        params = self._api.GeneratorParams(self._model)
        params.set_search_options(
            do_sample=False, max_length=total, min_length=total, batch_size=len(prompts)
        )
        return self._api.Generator(self._model, params)


if __name__ == "__main__":
    serve(Genai, ["onnxruntime-genai", "onnxruntime"])
