"""OpenVINO GenAI: its continuous batching pipeline, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.serving.scenario import Setup
from benchmarks.serving.workers.driving import serve_scenarios

_CACHE_GB = 2
_WARM_TOKENS = 600  # a whole step and a part of one


class OpenVino:
    """A model folder of OpenVINO. Pipelines are made anew where another setup, or an empty prefix cache, is asked for."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads
        self._setup: Setup | None = None
        self._pipeline: Any = None
        self.open(Setup(max_seqs=32, max_tokens=2048))

    def open(self, setup: Setup) -> OpenVinoServer:
        import openvino_genai

        if setup != self._setup or setup.prefix_reuse:
            scheduling = openvino_genai.SchedulerConfig()
            scheduling.cache_size = _CACHE_GB
            scheduling.dynamic_split_fuse = True
            scheduling.enable_prefix_caching = bool(setup.prefix_reuse)
            scheduling.max_num_seqs = setup.max_seqs
            scheduling.max_num_batched_tokens = setup.step_tokens
            self._pipeline = None  # its memory goes before the next one's comes
            self._pipeline = openvino_genai.ContinuousBatchingPipeline(
                str(self._folder), scheduling, "CPU", {"INFERENCE_NUM_THREADS": self._threads}
            )
            self._setup = setup
            self._warm_up()
        return OpenVinoServer(self._pipeline)

    def _warm_up(self) -> None:
        """Answer a prompt that begins like no other: a new pipeline's first steps take twice as long."""
        server = OpenVinoServer(self._pipeline)
        server.submit(0, [1] * _WARM_TOKENS, 4)
        while server.has_work:
            server.step()


class OpenVinoServer:
    """Requests of one pipeline."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._handles: dict[int, Any] = {}  # without its handle a request ends

    @property
    def has_work(self) -> bool:
        return self._pipeline.has_non_finished_requests()

    def submit(self, number: int, prompt: Sequence[int], new_tokens: int) -> None:
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = new_tokens
        config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
        ids = openvino.Tensor(np.array([prompt], np.int64))
        self._handles[number] = self._pipeline.add_request(number, ids, config)

    def step(self) -> list[tuple[int, int]]:
        self._pipeline.step()
        found: list[tuple[int, int]] = []
        for number, handle in list(self._handles.items()):
            while handle.can_read():
                (output,) = handle.read().values()
                found += [(number, token) for token in output.generated_ids]
        return found

    def cached_tokens(self, number: int) -> None:
        return None

    def parts(self) -> Mapping[str, float]:
        return {}


if __name__ == "__main__":
    serve_scenarios(OpenVino, ["openvino-genai", "openvino"])
