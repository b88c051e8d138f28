"""OpenVINO GenAI: its continuous batching pipeline, step by step. Prompt lookup is a pipeline of its own there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.agents.workers.asking import Answered, Wish, serve_wishes

_MOST_SEQUENCES = 8
_STEP_TOKENS = 2304
_CACHE_GB = 1


class OpenVino:
    """A model folder of OpenVINO."""

    def __init__(self, folder: Path, threads: int) -> None:
        import openvino_genai

        self._api = openvino_genai
        self._folder, self._threads = folder, threads
        self._pipelines = {False: self._pipeline(), True: self._pipeline(prompt_lookup=True)}
        self._next_request = 0

    def answer(self, wish: Wish) -> Answered:
        import openvino

        if wish.written:
            raise NotImplementedError("tokens that must follow are asked of the model")
        pipeline = self._pipelines[wish.drafts > 0]
        started = time.perf_counter()
        config = self._config(wish)
        handles = []
        for prompt in wish.prompts:
            self._next_request += 1
            ids = openvino.Tensor(np.array([prompt], np.int64))
            handles.append(pipeline.add_request(self._next_request, ids, config))
        while not all(handle.can_read() for handle in handles):
            pipeline.step()
        first = time.perf_counter()
        while pipeline.has_non_finished_requests():
            pipeline.step()
        ended = time.perf_counter()
        answers = [[int(token) for token in handle.read_all()[0].generated_ids] for handle in handles]
        return Answered(first - started, ended - started, answers)

    def _config(self, wish: Wish) -> Any:
        config = self._api.GenerationConfig()
        config.max_new_tokens, config.ignore_eos = wish.new_tokens, not wish.to_end
        config.do_sample, config.apply_chat_template = False, False
        if wish.to_end:
            config.set_eos_token_id(self._pipelines[False].get_tokenizer().get_eos_token_id())
        elif wish.schema is None:
            config.min_new_tokens = wish.new_tokens
        if wish.schema is not None:
            config.structured_output_config = self._api.StructuredOutputConfig(json_schema=wish.schema)
        if wish.drafts:
            config.num_assistant_tokens, config.max_ngram_size = wish.drafts, wish.match
        return config

    def _pipeline(self, **properties: Any) -> Any:
        scheduling = self._api.SchedulerConfig()
        scheduling.enable_prefix_caching = False
        scheduling.cache_size = _CACHE_GB
        scheduling.max_num_seqs = _MOST_SEQUENCES
        scheduling.max_num_batched_tokens = _STEP_TOKENS
        return self._api.ContinuousBatchingPipeline(
            str(self._folder), scheduling, "CPU", {"INFERENCE_NUM_THREADS": self._threads, **properties}
        )


if __name__ == "__main__":
    serve_wishes(OpenVino, ["openvino-genai", "openvino"])
