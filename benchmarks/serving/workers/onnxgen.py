"""onnxgen's engine on one of its backends, step by step."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.serving.scenario import Setup
from benchmarks.serving.workers.driving import serve_scenarios
from benchmarks.serving.workers.endurance import endure

if TYPE_CHECKING:
    from onnxgen.backends.base import Backend, KVCache, Step, StepOutput
    from onnxgen.engine.core import EngineCore

_LARGEST_BLOCK = 256  # a cache holds whole blocks, of no more positions than this


class TimedBackend:
    """A backend, and how long its last step took."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.seconds = 0.0

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        started = time.perf_counter()
        try:
            return self._backend.execute(step, cache)
        finally:
            self.seconds = time.perf_counter() - started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class Onnxgen:
    """A model folder of onnxgen in one of its backends."""

    def __init__(self, folder: Path, threads: int, backend: str) -> None:
        from onnxgen.backends import load_backend
        from onnxgen.foundations.runtime_config import RuntimeConfig
        from onnxgen.metadata import load_model_spec

        spec = load_model_spec(folder)
        self.context_length = spec.context_length
        self.backend = TimedBackend(
            load_backend(spec.decoder, RuntimeConfig(backend=backend, threads=threads))
        )
        self.engine: EngineCore | None = None

    def open(self, setup: Setup) -> EngineServer:
        from onnxgen.engine.config import EngineConfig
        from onnxgen.engine.core import EngineCore
        from onnxgen.scheduler.config import SchedulerConfig

        if self.engine is not None:
            self.engine.close()
        scheduling = SchedulerConfig(
            max_seqs=setup.max_seqs, max_step_tokens=setup.step_tokens, chunk_tokens=setup.step_tokens
        )
        config = EngineConfig(
            scheduling,
            max_seq_tokens=setup.max_tokens,
            cache_tokens=setup.max_seqs * (setup.max_tokens + -setup.max_tokens % _LARGEST_BLOCK),
            prefix_reuse=setup.prefix_reuse is not False,
        )
        self.engine = EngineCore(self.backend, config, eos_ids=(), context_length=self.context_length)
        return EngineServer(self.engine, self.backend)

    def endure(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A long life with cancelled, refused and failing requests; see `endure`."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        samples = endure(
            self.backend,
            context_length=self.context_length,
            requests=request["requests"],
            every=request["every"],
            seed=request["seed"],
        )
        return {"samples": [asdict(sample) for sample in samples]}


class EngineServer:
    """Requests of one engine."""

    def __init__(self, engine: EngineCore, backend: TimedBackend) -> None:
        self._engine, self._backend = engine, backend
        self._numbers: dict[int, int] = {}
        self._cached: dict[int, int] = {}

    @property
    def has_work(self) -> bool:
        return self._engine.has_work

    def submit(self, number: int, prompt: Sequence[int], new_tokens: int) -> None:
        from onnxgen.engine.request import EngineRequest

        request = EngineRequest(prompt, max_new_tokens=new_tokens, ignore_eos=True)
        self._numbers[self._engine.submit(request)] = number

    def step(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for event in self._engine.step():
            number = self._numbers[event.request_id]
            if event.error is not None:
                raise event.error
            if event.token_id is not None:
                found.append((number, event.token_id))
            if event.usage is not None:
                self._cached[number] = event.usage.cached_tokens
        return found

    def cached_tokens(self, number: int) -> int:
        return self._cached[number]

    def parts(self) -> dict[str, float]:
        """The backend's own time; planning; packing, which the engine counts to execution; choosing; the rest is not told."""
        last, backend_s = self._engine.last_step, self._backend.seconds
        assert last is not None
        return {
            "backend": backend_s,
            "plan": last.plan_s,
            "pack": last.execute_s - backend_s,
            "sample": last.sample_s,
        }


if __name__ == "__main__":
    name = sys.argv[1]
    serve_scenarios(
        lambda folder, threads: Onnxgen(folder, threads, name),
        ["onnxgen", "onnxruntime"],
        {"endure": Onnxgen.endure},
    )
