"""`SharedEngine`: one engine for threads that wait for answers. Whoever waits drives it.

No thread of its own: a thread that wants its next event, and finds none, does a step for everybody, unless another
thread is in one; then it waits for that one to end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from onnxgen.engine.core import EngineCore
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.stats import EngineStats
from onnxgen.errors import StateError
from onnxgen.foundations.after_fork import in_forked_children


class SharedEngine:
    """An engine that several threads may ask for answers.

    Args:
        make: Makes the engine when the first request comes.
    """

    def __init__(self, make: Callable[[], EngineCore]) -> None:
        self._make = make
        self._core: EngineCore | None = None
        self._lock = threading.Lock()
        self._untaken: dict[int, deque[EngineEvent]] = {}
        self._dropped: deque[Pending] = deque()
        self._closed = False
        in_forked_children(self, SharedEngine._begin_anew)

    def submit(self, request: EngineRequest) -> Pending:
        """Ask for answers.

        Raises:
            OnnxgenError: What `EngineCore.submit` raises, and what making the engine raises.
            StateError: The engine is closed.
        """
        with self._lock:
            core = self._opened()
            try:
                request_id = core.submit(request)
            finally:
                core.hand_over()
            self._untaken[request_id] = deque()
        return Pending(self, request_id)

    def stats(self) -> EngineStats | None:
        """What the engine has done; None if nothing was asked of it yet."""
        with self._lock:
            return None if self._core is None else self._core.stats()

    def take(self, pending: Pending) -> list[EngineEvent]:
        """Events of a request since the last time, at least one: does steps until there are some.

        Raises:
            StateError: The engine is closed, or the request has ended and all of it was taken.
        """
        while True:
            with self._lock:
                untaken = self._untaken.get(pending.request_id)
                if untaken is None:
                    raise StateError("this request has ended")
                if untaken:
                    return self._take(pending.request_id, untaken)
                self._step()

    def cancel(
        self, pending: Pending, *, index: int | None = None, reason: FinishReason = "cancelled"
    ) -> None:
        """End a request, or one of its samples."""
        with self._lock:
            if self._core is None or pending.request_id not in self._untaken:
                return
            self._core.cancel(pending.request_id, index=index, reason=reason)
            self._core.hand_over()

    def drop(self, pending: Pending) -> None:
        """End a request that nobody waits for any more. Never waits itself, so finalizers may call it."""
        self._dropped.append(pending)
        if self._lock.acquire(blocking=False):
            try:
                self._end_dropped()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End all requests and release the cache. Calling it twice is harmless."""
        with self._lock:
            self._closed = True
            core, self._core = self._core, None
            self._untaken.clear()
            if core is not None:
                core.close()

    def _opened(self) -> EngineCore:
        if self._closed:
            raise StateError("this model was closed; load it again")
        if self._core is None:
            self._core = self._make()
        return self._core

    def _step(self) -> None:
        """Do a step, and hand out what it says."""
        core = self._opened()
        self._end_dropped()
        try:
            events = core.step()
        finally:
            core.hand_over()
        for event in events:
            untaken = self._untaken.get(event.request_id)
            if untaken is not None:
                untaken.append(event)

    def _take(self, request_id: int, untaken: deque[EngineEvent]) -> list[EngineEvent]:
        events = list(untaken)
        untaken.clear()
        return events

    def _end_dropped(self) -> None:
        while self._dropped:
            pending = self._dropped.popleft()
            if self._untaken.pop(pending.request_id, None) is not None and self._core is not None:
                self._core.cancel(pending.request_id)
                self._core.hand_over()

    def _begin_anew(self) -> None:
        """In a forked child: another thread may have been in the middle of a step, and goes on in the parent only."""
        self._lock = threading.Lock()
        self._core = None
        self._untaken = {}


class Pending:
    """A request of a `SharedEngine`.

    Args:
        engine: Where it was submitted.
        request_id: Its number there.
    """

    __slots__ = ("_engine", "request_id")

    def __init__(self, engine: SharedEngine, request_id: int) -> None:
        self._engine = engine
        self.request_id = request_id

    def take(self) -> list[EngineEvent]:
        """See `SharedEngine.take`."""
        return self._engine.take(self)

    def cancel(self, *, index: int | None = None, reason: FinishReason = "cancelled") -> None:
        """See `SharedEngine.cancel`."""
        self._engine.cancel(self, index=index, reason=reason)

    def drop(self) -> None:
        """See `SharedEngine.drop`."""
        self._engine.drop(self)
