"""What an `EngineClient` is made of: the engine's `Core`, the `Recipe` that makes it, and the `Link` to it.

caller ── EngineClient ── EngineLife          what is pending with one engine, and how it is
                │              ▲
             commands       reports
                ▼              │
               Link  ──────────┘              a thread, or a process and two pipes
                │
              serve ── Core                   one thread owns the core: it makes, steps and closes it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from onnxgen.backends.adapters import Adapter
from onnxgen.engine.client.messages import Command, Report
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.stats import EngineStats
from onnxgen.engine.view import EngineView
from onnxgen.errors import OnnxgenError
from onnxgen.foundations.progress import Progress
from onnxgen.scheduler.config import SchedulerConfig

Listener = Callable[[Sequence[EngineEvent]], None]
"""Is told what one step did to the requests that were submitted with it, in the engine's thread: it must be quick."""


class Core(Protocol):
    """What serves requests, one step at a time; `EngineCore` is one. All calls but `prepare` come from one thread."""

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to do or to tell."""
        ...

    def prepare(self, request: EngineRequest) -> None:
        """Do what may take long before `submit`, or raise why it cannot be done; called for requests with a grammar."""
        ...

    def submit(self, request: EngineRequest) -> int:
        """Accept a request, or raise why not; returns the number that its events carry."""
        ...

    def cancel(
        self, request_id: int, *, index: int | None = None, reason: FinishReason = "cancelled"
    ) -> bool:
        """End a request, or one sample of it; its last events come with the next `step`."""
        ...

    def step(self) -> list[EngineEvent]:
        """Do one step. What it raises is the end of the core."""
        ...

    def stats(self) -> EngineStats:
        """Counts since the core was made."""
        ...

    def view(self, *, steps: int, prefixes: int) -> EngineView:
        """The core from inside."""
        ...

    def reconfigure(self, config: SchedulerConfig) -> object:
        """Change budgets and policy."""
        ...

    def load_adapter(self, adapter: Adapter) -> None:
        """Have an adapter ready for requests, or raise why not."""
        ...

    def unload_adapter(self, name: str) -> None:
        """Let go of an adapter, or raise why not."""
        ...


Recipe = Callable[[], AbstractContextManager[Core]]
"""Makes a core, in the thread that will own it; leaving the context closes it.

For a process of its own it must be picklable: a function of a module, or an object such as `ModelRecipe`.
"""


class HealthState(Enum):
    """How an engine is."""

    STARTING = "starting"
    HEALTHY = "healthy"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Health:
    """How an engine is, and why.

    Attributes:
        state: How it is.
        reason: What happened to it, with ``FAILED`` only.
    """

    state: HealthState
    reason: str | None = None


class Receiver(Protocol):
    """Hears of an engine; `EngineLife` is one. May be called from any thread."""

    def receive(self, report: Report) -> None:
        """The engine reports something."""
        ...

    def end(self, error: OnnxgenError) -> None:
        """The engine is no more, and this is why; what is said after the first time is not news."""
        ...


class Link(Protocol):
    """The way to one engine, from its beginning to its end."""

    @property
    def pid(self) -> int | None:
        """The engine's process; None while there is none, and for an engine in this process."""
        ...

    def start(self, receiver: Receiver, *, progress: Progress) -> None:
        """Begin to make the engine; ``receiver`` hears when it is ready, or why it will not be.

        Raises:
            OnnxgenError: It cannot even be begun.
        """
        ...

    def send(self, command: Command) -> None:
        """Tell the engine something, without waiting for it. What cannot arrive any more is dropped.

        Raises:
            OptionError: It cannot be sent.
        """
        ...

    def close(self, *, timeout_s: float) -> bool:
        """End the engine, after ``timeout_s`` by force if that is possible. Calling it twice is harmless.

        Returns:
            Whether it has ended.
        """
        ...
