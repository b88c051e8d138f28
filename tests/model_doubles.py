"""Models of a server that load at once, fail and die when a test says so; a table of them, and a clock."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

from onnxgen.engine.client import Health, HealthState
from onnxgen.errors import BackendError
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.server.models import LoadedModel, ModelEntry, ModelTable

WAIT_S = 30.0
"""No wait of a test is longer."""


class ScriptedLLM:
    """What a table does with an `AsyncLLM`."""

    engine_pid = None
    num_pending = 0
    context_length = 64
    has_chat_template = True

    def __init__(self) -> None:
        self.health = Health(HealthState.HEALTHY)
        self.scheduler_config = SchedulerConfig()
        self.calls: list[tuple[str, Any]] = []
        self.closed = False
        self.restarts = 0
        self.refuses_restarts = 0
        self.may_restart = asyncio.Event()
        self.may_restart.set()
        self._died = asyncio.Event()

    def die(self, reason: str = "it was killed") -> None:
        """End the engine."""
        self.health = Health(HealthState.FAILED, reason)
        self._died.set()

    async def failure(self) -> str:
        """As `AsyncLLM.failure`."""
        await self._died.wait()
        assert self.health.reason is not None
        return self.health.reason

    async def restart(self) -> None:
        """As `AsyncLLM.restart`."""
        await self.may_restart.wait()
        if self.refuses_restarts:
            self.refuses_restarts -= 1
            raise BackendError("there is no memory for a cache")
        self.restarts += 1
        self._died.clear()
        self.health = Health(HealthState.HEALTHY)

    async def load_adapter(self, path: str, name: str) -> None:
        """Note it."""
        self.calls.append(("adapter", (path, name)))

    async def complete(self, text: str, **asked: Any) -> None:
        """Note it."""
        self.calls.append(("complete", asked))

    async def complete_chat(self, messages: Any, **asked: Any) -> None:
        """Note it."""
        self.calls.append(("chat", asked))

    def close(self) -> None:
        """Note it."""
        assert not self.closed
        self.closed = True


class ScriptedLoader:
    """Loads what a test scripted.

    Attributes:
        loaded: All models that were loaded, in order.
        gates: A model loads only once its event is set.
        failures: What loading a model raises, once each.
        sizes: Bytes of memory that a model takes.
    """

    def __init__(self) -> None:
        self.loaded: list[LoadedModel] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.failures: dict[str, list[Exception]] = {}
        self.sizes: dict[str, int] = {}
        self.under_way = 0
        self.most_under_way = 0

    async def __call__(self, entry: ModelEntry) -> LoadedModel:
        """Load a model."""
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if entry.id in self.gates:
                await self.gates[entry.id].wait()
            await asyncio.sleep(0)
            if self.failures.get(entry.id):
                raise self.failures[entry.id].pop(0)
        finally:
            self.under_way -= 1
        model = LoadedModel(
            entry,
            llm=ScriptedLLM(),  # type: ignore[arg-type]
            adapters=tuple(entry.adapters),
            loaded_at=1.0,
            memory_bytes=self.sizes.get(entry.id),
        )
        self.loaded.append(model)
        return model

    @property
    def ids(self) -> list[str]:
        """What was loaded, in order."""
        return [model.id for model in self.loaded]


class StoppedClock:
    """A clock that only moves when it is told to, or when somebody sleeps by it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        """Seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Sleep without waiting."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def entry(id: str, **fields: Any) -> ModelEntry:
    """An entry that loads when it is asked for, cold."""
    return ModelEntry(id, f"/nowhere/{id}", **{"preload": False, "warm_up": False, **fields})


@contextlib.asynccontextmanager
async def table(*entries: ModelEntry, clock: StoppedClock | None = None, **options: Any):
    """A table of scripted models: its parts as attributes, and ``models`` itself."""
    loader, clock = ScriptedLoader(), clock or StoppedClock()
    models = ModelTable(entries, load=loader, clock=clock, sleep=clock.sleep, tidy=lambda: None, **options)
    try:
        yield SimpleNamespace(models=models, loader=loader, clock=clock)
    finally:
        await models.aclose()


async def until(question: Any) -> None:
    """Let other tasks run until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not question():
            await asyncio.sleep(0.001)


def run(work: Any) -> Any:
    """Run a coroutine in a loop of its own, not for ever."""

    async def limited() -> Any:
        async with asyncio.timeout(WAIT_S):
            return await work

    return asyncio.run(limited())
