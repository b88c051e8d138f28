"""`Place`: one model's place in a table, loaded or not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from onnxgen.server.errors import ApiError
from onnxgen.server.models.entry import ModelEntry, Task
from onnxgen.server.models.limits import Held
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.memory import expected_bytes, model_bytes
from onnxgen.server.models.states import ModelState, ModelStatus


@dataclass(slots=True, eq=False)
class Place:
    """One model's place. For one event loop.

    Attributes:
        entry: What the operator says of it.
        state: How it is.
        model: What is loaded; None: nothing.
        uses: Requests that use it or wait for it; as long as there is one, it is not unloaded to make room.
        last_used: When it was last asked for, on the table's clock.
        change: Loading or unloading, while that is under way.
        supervision: Starts its engine anew when it dies.
        timer: Unloads it, or tries again to load it, unless somebody asks for it before.
        restarts: How often its engine was made anew since it was loaded.
        evictions: How often it was unloaded although somebody used it or waited for it.
        refusal: Why it could not be loaded, for clients.
        error: The same for the operator.
        retry_at: When loading it may be tried again, on the table's clock.
        failures: How often in a row it could not be loaded.
        known_bytes: What it took when that was last measured.
        known_context: Its context, once it was loaded.
    """

    entry: ModelEntry
    state: ModelState = ModelState.UNLOADED
    model: LoadedModel | None = None
    uses: int = 0
    last_used: float = 0.0
    change: asyncio.Task[None] | None = None
    supervision: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    restarts: int = 0
    evictions: int = 0
    refusal: ApiError | None = None
    error: str | None = None
    retry_at: float = 0.0
    failures: int = 0
    known_bytes: int | None = None
    known_context: int | None = field(default=None)

    @property
    def is_held(self) -> bool:
        """Whether it takes memory."""
        return self.model is not None

    def measure(self) -> int:
        """Bytes that it takes, or is expected to take."""
        if self.model is not None:
            self.known_bytes = model_bytes(self.model) or self.known_bytes
        return expected_bytes(self.entry.source) if self.known_bytes is None else self.known_bytes

    def held(self) -> Held:
        """It as limits see it."""
        is_idle = self.uses == 0 and self.state is ModelState.READY
        return Held(self.entry.id, self.measure(), self.last_used, is_idle)

    def status(self, *, now: float) -> ModelStatus:
        """How it is.

        Args:
            now: Seconds on the event loop's clock.
        """
        model = self.model
        llm = None if model is None else model.llm
        return ModelStatus(
            id=self.entry.id,
            aliases=self.entry.aliases,
            state=self.state,
            task=_task(self.entry, model),
            uses=self.uses,
            pending=0 if llm is None else llm.num_pending,
            loaded_at=None if model is None else model.loaded_at,
            load_s=None if model is None else model.load_s,
            memory_bytes=None if model is None else model_bytes(model),
            engine_pid=None if llm is None else llm.engine_pid,
            context_length=self.known_context,
            restarts=self.restarts,
            unload_in_s=self._unload_in_s(now),
            error=self.error,
        )

    def stop_timers(self) -> None:
        """Somebody asks for it."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _unload_in_s(self, now: float) -> float | None:
        if self.timer is None or self.state is not ModelState.READY:
            return None
        return max(0.0, self.timer.when() - now)


def _task(entry: ModelEntry, model: LoadedModel | None) -> Task:
    if model is None:
        return entry.task
    return "embed" if model.llm is None else "generate"
