"""OpenVINO GenAI: its continuous batching pipeline, step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.workers.serving import StreamTimes, serve

_MOST_SEQUENCES = 64
_STEP_TOKENS = 2304  # a prompt of 2,048 tokens is one step, as the program does it at its best
_CACHE_GB = 1


class OpenVino:
    """A model folder of OpenVINO."""

    def __init__(self, folder: Path, threads: int) -> None:
        import openvino_genai

        self._api = openvino_genai
        scheduling = self._api.SchedulerConfig()
        scheduling.enable_prefix_caching = False
        scheduling.cache_size = _CACHE_GB
        scheduling.max_num_seqs = _MOST_SEQUENCES
        scheduling.max_num_batched_tokens = _STEP_TOKENS
        self._pipeline = self._api.ContinuousBatchingPipeline(
            str(folder), scheduling, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        self._next_request = 0

    def prefill(self, prompt: Sequence[int]) -> float:
        return self.streams([prompt], 1).total_s

    def decode(self, prompt: Sequence[int], new_tokens: int) -> float:
        return self.streams([prompt], new_tokens).decode_s

    def streams(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> StreamTimes:
        started = time.perf_counter()
        handles = [self._add(prompt, new_tokens) for prompt in prompts]  # without its handle a request ends
        while not all(handle.can_read() for handle in handles):
            self._pipeline.step()
        first = time.perf_counter()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        ended = time.perf_counter()
        return StreamTimes(ended - first, ended - started)

    def _add(self, prompt: Sequence[int], new_tokens: int) -> Any:
        import openvino

        config = self._api.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = new_tokens
        config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
        self._next_request += 1
        ids = openvino.Tensor(np.array([prompt], np.int64))
        return self._pipeline.add_request(self._next_request, ids, config)


if __name__ == "__main__":
    serve(OpenVino, ["openvino-genai", "openvino"])
