"""`FairLock`: one thread at a time, in the order in which they came.

`threading.Lock` lets whoever has just released it take it again before the threads that wait have woken up, so one
that comes back all the time keeps the others out.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator
from queue import SimpleQueue


class FairLock:
    """One thread at a time, in the order in which they came. Not reentrant.

    ::

        queue   [holder, next, next but one, ...]       whoever leaves wakes the one that is first then

    The queue is the whole state, so an interrupt anywhere leaves nothing locked. `held_if_free` never waits, so
    finalizers may use it, also in a thread that holds the lock.
    """

    def __init__(self) -> None:
        self._queue: deque[SimpleQueue[None]] = deque()

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Wait until it is this thread's turn, and hold the lock for a ``with`` block."""
        mine: SimpleQueue[None] = SimpleQueue()
        try:
            self._queue.append(mine)
            while self._queue[0] is not mine:
                mine.get()
            yield
        finally:
            self._leave(mine)

    @contextlib.contextmanager
    def held_if_free(self) -> Generator[bool]:
        """Hold the lock for a ``with`` block if nobody else does; gives whether it is held."""
        mine: SimpleQueue[None] = SimpleQueue()
        try:
            self._queue.append(mine)
            yield self._queue[0] is mine
        finally:
            self._leave(mine)

    def _leave(self, mine: SimpleQueue[None]) -> None:
        with contextlib.suppress(ValueError):  # interrupted before it came
            self._queue.remove(mine)
        with contextlib.suppress(IndexError):  # nobody waits
            self._queue[0].put(None)
