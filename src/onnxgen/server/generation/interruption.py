"""`Interruption`: ends a task's wait from outside, for a reason of its own."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class Interruption:
    """Ends what one task waits for, as `asyncio.timeout` does when its time is over.

    ::

        with interruption:            # raises the reason, once there is one
            await something_long()

    Cancelling the task means what it always does.
    """

    def __init__(self) -> None:
        self._reason: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    @property
    def reason(self) -> BaseException | None:
        """Why there is an end; None: there is none yet."""
        return self._reason

    def interrupt(self, reason: BaseException) -> None:
        """End the wait; the first reason counts."""
        if self._reason is None:
            self._reason = reason
            if self._task is not None:
                self._task.cancel()

    def __enter__(self) -> None:
        if self._reason is not None:
            raise self._reason
        task = asyncio.current_task()
        assert task is not None and self._task is None
        self._task, self._cancelling = task, task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None
        if self._reason is None:
            return
        is_ours = task.uncancel() <= self._cancelling
        if is_ours and kind is asyncio.CancelledError:
            raise self._reason from error
