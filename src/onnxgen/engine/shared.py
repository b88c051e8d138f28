"""`SharedEngine`: one engine for threads that wait for answers. Whoever waits drives it.

No thread of its own: a thread that wants its next event, and finds none, does a step for everybody, unless another
thread is in one; then it waits for that one to end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager

from onnxgen.engine.core import EngineCore
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.stats import EngineStats
from onnxgen.errors import StateError
from onnxgen.foundations.after_fork import in_forked_children, leave_to_parent
from onnxgen.foundations.fair_lock import FairLock


class SharedEngine:
    """An engine that several threads may ask for answers.

    Args:
        recipe: Makes the engine when the first request comes; leaving the context closes it.
    """

    def __init__(self, recipe: Callable[[], AbstractContextManager[EngineCore]]) -> None:
        self._recipe = recipe
        self._core: EngineCore | None = None
        self._made: AbstractContextManager[EngineCore] | None = None
        self._lock = FairLock()
        self._untaken: dict[int, list[EngineEvent]] = {}
        self._dropped: deque[int] = deque()
        self._closed = False
        in_forked_children(self, SharedEngine._begin_anew)

    def submit(self, request: EngineRequest) -> int:
        """Ask for answers; returns the number of the request, to be dropped when nobody waits for it any more.

        Raises:
            OnnxgenError: What `EngineCore.submit` raises, and what making the engine raises.
            StateError: The engine is closed.
        """
        if request.grammar is not None:
            with self._lock.held():
                core = self._opened()
            core.prepare(request)  # without the lock: others go on meanwhile
        with self._lock.held():
            core = self._opened()
            try:
                request_id = core.submit(request)
            finally:
                core.hand_over()
            self._untaken[request_id] = []
        return request_id

    def take(self, request_ids: Collection[int]) -> list[EngineEvent]:
        """Events of some requests since the last time, at least one: does steps until there are some.

        Raises:
            StateError: None of them has more to tell: they have ended, or the engine is closed.
        """
        while True:
            with self._lock.held():
                known = [self._untaken[i] for i in request_ids if i in self._untaken]
                events = [event for untaken in known for event in untaken]
                if events:
                    for untaken in known:
                        untaken.clear()
                    return events
                if self._closed:
                    raise StateError("the model was closed while this request was under way")
                if self._core is None or not known or not self._core.has_work:
                    raise StateError("nothing more will be told of these requests: they have ended")
                self._step(self._core)

    def cancel(
        self, request_id: int, *, index: int | None = None, reason: FinishReason = "cancelled"
    ) -> None:
        """End a request, or one of its samples; its last event comes with the next `take`."""
        with self._lock.held():
            if self._core is not None:
                self._core.cancel(request_id, index=index, reason=reason)
                self._core.hand_over()

    def drop(self, request_ids: Iterable[int]) -> None:
        """End requests that nobody waits for any more. Never waits itself, so finalizers may call it."""
        self._dropped.extend(request_ids)
        with self._lock.held_if_free() as is_held:
            if is_held:
                self._end_dropped()

    def stats(self) -> EngineStats | None:
        """What the engine has done; None if nothing was asked of it yet."""
        with self._lock.held():
            return None if self._core is None else self._core.stats()

    def close(self) -> None:
        """End all requests and release the cache. Calling it twice is harmless."""
        with self._lock.held():
            self._closed = True
            made, self._made, self._core = self._made, None, None
            self._untaken.clear()
            if made is not None:
                made.__exit__(None, None, None)

    def _opened(self) -> EngineCore:
        if self._closed:
            raise StateError("this model was closed; load it again")
        if self._core is None:
            made = self._recipe()
            self._core, self._made = made.__enter__(), made
        return self._core

    def _step(self, core: EngineCore) -> None:
        """Do a step, and keep what it says for those who wait for it."""
        self._end_dropped()
        try:
            events = core.step()
        finally:
            core.hand_over()
        for event in events:
            if event.request_id in self._untaken:
                self._untaken[event.request_id].append(event)

    def _end_dropped(self) -> None:
        while self._dropped:
            request_id = self._dropped.popleft()
            if self._untaken.pop(request_id, None) is not None and self._core is not None:
                self._core.cancel(request_id)
                self._core.hand_over()

    def _begin_anew(self) -> None:
        """In a forked child: another thread may have been in the middle of a step, and goes on in the parent only."""
        self._lock = FairLock()
        if self._made is not None:
            leave_to_parent(self._made)
        self._core, self._made = None, None
        self._untaken = {}
        self._dropped.clear()
