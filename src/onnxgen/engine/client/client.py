"""`EngineClient`: an engine that runs elsewhere, with one set of calls and promises wherever that is."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from threading import RLock
from types import TracebackType
from typing import Any, Self

from onnxgen.backends.adapters import Adapter
from onnxgen.engine.client.base import Health, HealthState, Link, Listener
from onnxgen.engine.client.life import EngineLife
from onnxgen.engine.client.messages import (
    Ask,
    AskStats,
    AskView,
    Cancel,
    LoadAdapter,
    Reconfigure,
    Submit,
    UnloadAdapter,
)
from onnxgen.engine.events import FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.stats import EngineStats
from onnxgen.engine.view import EngineView
from onnxgen.errors import OnnxgenError, StateError
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.scheduler.config import SchedulerConfig

_AT_EXIT_S = 5.0
_NOT_STARTED = "this engine was not started; call start() first"
_WAS_CLOSED = "this engine was closed; make a new client"


class EngineClient:
    """An engine in a thread or in a process of its own. May be used from several threads.

    Every sample of a request that was accepted ends once, with a last event, whatever becomes of the engine: if it
    fails or its process dies, pending requests end at once with `EngineDeadError`, and so does every later call
    until `restart`. A client that is dropped, or still there when the interpreter ends, is closed.

    Args:
        make_link: Makes the way to a new engine; `in_process` and `in_subprocess` make such clients.
    """

    def __init__(self, make_link: Callable[[], Link]) -> None:
        self._make_link = make_link
        self._numbers = itertools.count()
        self._lifecycle = RLock()
        self._life: EngineLife | None = None
        self._link: Link | None = None
        self._release: weakref.finalize[..., EngineClient] | None = None
        self._closed = False
        self._restarting = False
        self._process = os.getpid()

    @property
    def health(self) -> Health:
        """How the engine is; a client that was not started is closed."""
        life = self._life
        if self._closed or life is None:
            return Health(HealthState.CLOSED)
        return Health(HealthState.STARTING) if self._restarting else life.health

    @property
    def num_pending(self) -> int:
        """Requests that have not ended."""
        return 0 if self._life is None else self._life.num_pending

    @property
    def pid(self) -> int | None:
        """The engine's process; None for an engine in this process, and while there is none."""
        link = self._link
        return None if link is None else link.pid

    @property
    def ended(self) -> Future[None]:
        """Done once the engine that runs now has failed or was closed; not to be cancelled.

        Raises:
            StateError: It is not started.
        """
        if self._life is None:
            raise StateError(_NOT_STARTED)
        return self._life.ended

    def start(self, *, progress: Progress = SILENT) -> None:
        """Make the engine, and wait until it is ready. An interrupt while it loads ends it.

        Args:
            progress: Shows what takes time.

        Raises:
            OnnxgenError: What making it raised.
            EngineDeadError: Making it raised something else, or its process ended.
            StateError: It runs already, or was closed.
        """
        with self._lifecycle:
            self._check_process()
            if self._closed:
                raise StateError(_WAS_CLOSED)
            if self._life is not None and self._life.health.state is not HealthState.FAILED:
                raise StateError("this engine runs already; restart() ends it first")
            self._drop_link()
            self._begin(progress)

    def submit(self, request: EngineRequest, listener: Listener) -> int:
        """Ask for answers, and wait until the engine has accepted; a step may be in its way.

        Args:
            request: What is asked for.
            listener: Is called in the engine's thread, once for each step that has news of requests submitted with
                it, perhaps before this call returns.

        Returns:
            The number that events of the request carry, and that `cancel` takes.

        Raises:
            OnnxgenError: Why the engine refuses it.
            EngineDeadError: The engine has failed.
            StateError: It is not started, or closed.
        """
        life, link = self._running()
        request_id, answer = life.expect_answer(num_samples=request.n, listener=listener)
        try:
            link.send(Submit(request_id, request, wants_answer=True))
            answer.result()
        except BaseException as cause:
            life.forget(request_id)
            if not isinstance(cause, OnnxgenError):  # an interrupt
                link.send(Cancel(request_id, None, "cancelled"))
            raise
        return request_id

    def submit_soon(self, request: EngineRequest, listener: Listener) -> int:
        """Ask for answers without waiting for anything, as event loops must; a refusal comes as events.

        Args:
            request: What is asked for.
            listener: See `submit`.

        Returns:
            The number of the request.

        Raises:
            OptionError: The request cannot be sent to the engine's process.
            EngineDeadError: The engine has failed.
            StateError: It is not started, or closed.
        """
        life, link = self._running()
        request_id = life.expect_events(request.n, listener)
        try:
            link.send(Submit(request_id, request))
        except BaseException:
            life.forget(request_id)
            raise
        return request_id

    def cancel(
        self, request_id: int, *, index: int | None = None, reason: FinishReason = "cancelled"
    ) -> None:
        """End a request, or one of its samples, before its next step; its last event comes from the engine.

        Does not wait, and does nothing where there is nothing to end any more.

        Args:
            request_id: Which request.
            index: Which of its samples; None: all.
            reason: What the last event says; ``stop`` where the caller found a stop text.
        """
        self._check_process()
        life, link = self._life, self._link
        if life is not None and link is not None and life.is_pending(request_id):
            link.send(Cancel(request_id, index, reason))

    def stats(self, *, timeout_s: float | None = None) -> EngineStats:
        """Counts since the engine was made; waits for the step that is under way.

        Raises:
            TimeoutError: The engine did not answer within ``timeout_s``.
            EngineDeadError: It has failed.
            StateError: It is not started, or closed.
        """
        return self._ask(AskStats, timeout_s=timeout_s)

    def view(self, *, steps: int = 0, prefixes: int = 0, timeout_s: float | None = None) -> EngineView:
        """The engine from inside; waits for the step that is under way.

        Args:
            steps: How many of the last steps at most.
            prefixes: How many known beginnings of sequences at most.
            timeout_s: How long to wait.

        Raises:
            TimeoutError: The engine did not answer within ``timeout_s``.
            EngineDeadError: It has failed.
            StateError: It is not started, or closed.
        """
        return self._ask(lambda answer_to: AskView(answer_to, steps, prefixes), timeout_s=timeout_s)

    def reconfigure(self, config: SchedulerConfig) -> Any:
        """Change budgets and policy; what is over the new budgets gives way in the next steps.

        Returns:
            What the core says to it.

        Raises:
            ConfigError: The configuration is refused.
            EngineDeadError: The engine has failed.
            StateError: It is not started, or closed.
        """
        return self._ask(lambda answer_to: Reconfigure(answer_to, config))

    def load_adapter(self, adapter: Adapter) -> None:
        """Have an adapter ready for requests, between two steps of the engine; it is sent along where that is elsewhere.

        Raises:
            StateError: There is one of that name; or the engine is not started, or closed.
            ModelFileError: It does not fit the model.
            CapabilityError: The backend cannot apply it.
            EngineDeadError: The engine has failed.
        """
        self._ask(lambda answer_to: LoadAdapter(answer_to, adapter))

    def unload_adapter(self, name: str) -> None:
        """Let go of an adapter.

        Raises:
            OptionError: There is no such adapter.
            StateError: A request uses it; or the engine is not started, or closed.
            EngineDeadError: The engine has failed.
        """
        self._ask(lambda answer_to: UnloadAdapter(answer_to, name))

    def restart(self, *, progress: Progress = SILENT, timeout_s: float = 10.0) -> None:
        """End the engine, failed or not, and start a new one. What was pending ends with `StateError`.

        Args:
            progress: As in `start`.
            timeout_s: As in `close`.

        Raises:
            OnnxgenError: As in `start`.
        """
        with self._lifecycle:
            self._check_process()
            if self._closed:
                raise StateError(_WAS_CLOSED)
            self._restarting = self._life is not None
            try:
                self._end_life("the engine was restarted while the request was under way; ask again")
                self._drop_link(timeout_s=timeout_s)
                self._begin(progress)
            finally:
                self._restarting = False

    def close(self, *, timeout_s: float = 10.0) -> bool:
        """End the engine. What is pending ends with `StateError`. Calling it twice is harmless.

        Args:
            timeout_s: How long it may take in good order: a step under way is awaited, then the core is closed. After
                that a process is killed, and a thread is left to itself; at once if the engine still loads.

        Returns:
            Whether it has ended: not a thread that is still in a step.
        """
        if os.getpid() != self._process:
            return False  # the engine is another process's
        self._closed = True
        self._end_life("the engine was closed")  # without the lock: another thread may be waiting in start()
        with self._lifecycle:
            self._end_life("the engine was closed")
            return self._drop_link(timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, progress: Progress) -> None:
        life, link = EngineLife(self._numbers, progress=progress), self._make_link()
        # the life must not hold the client, or a client that was dropped would live on in its engine's thread
        self._release = weakref.finalize(self, _abandon, life, link, self._process)
        self._life, self._link = life, link
        if self._closed:  # by another thread, just now
            life.end(StateError(_WAS_CLOSED), closed=True)
        try:
            link.start(life, progress=progress)
            life.started.result()
        except OnnxgenError as error:
            life.end(error)
            raise
        except BaseException:  # an interrupt
            life.end(StateError("starting the engine was interrupted"), closed=True)
            self._drop_link()
            self._life = None
            raise

    def _ask(self, command: Callable[[int], Ask], *, timeout_s: float | None = None) -> Any:
        life, link = self._running()
        answer_to, answer = life.expect_answer()
        link.send(command(answer_to))
        return _await(answer, timeout_s)

    def _running(self) -> tuple[EngineLife, Link]:
        self._check_process()
        life, link = self._life, self._link
        if self._closed:
            raise StateError(_WAS_CLOSED)
        if life is None or link is None:
            raise StateError(_NOT_STARTED)
        return life, link

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise StateError(
                f"this engine belongs to process {self._process}; a forked child (this is {os.getpid()}) has none of "
                "it, and must make its own"
            )

    def _end_life(self, why: str) -> None:
        if self._life is not None:
            self._life.end(StateError(why), closed=True)

    def _drop_link(self, *, timeout_s: float = 0.0) -> bool:
        if self._release is not None:
            self._release.detach()
        life, link, self._link = self._life, self._link, None
        return link is None or link.close(timeout_s=_patience(life, timeout_s))


def _await(answer: Future[Any], timeout_s: float | None) -> Any:
    try:
        return answer.result(timeout_s)
    except TimeoutError as cause:
        raise TimeoutError(
            f"the engine did not answer within {timeout_s} s; a step may take longer"
        ) from cause


def _abandon(life: EngineLife, link: Link, process: int) -> None:
    """Nobody closed the client, and nobody can any more."""
    if os.getpid() == process:
        life.end(StateError("the engine's client was dropped while the request was under way"), closed=True)
        link.close(timeout_s=_patience(life, _AT_EXIT_S))


def _patience(life: EngineLife | None, timeout_s: float) -> float:
    """How long to wait for an engine's end: not for one that still loads, and so does not listen."""
    return timeout_s if life is not None and life.was_ready else 0.0
