"""Progress of work in one thread or process, shown in another."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import Self

from onnxgen.engine.client.messages import Progressed
from onnxgen.foundations.progress import Progress, ProgressTask


class ProgressRelay:
    """A `Progress` that reports what it is told.

    Args:
        report: Is told of every change.
    """

    def __init__(self, report: Callable[[Progressed], None]) -> None:
        self._report = report
        self._tasks = itertools.count()

    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> ProgressTask:
        """Begin a piece of work of ``total`` units (None: unknown)."""
        task = next(self._tasks)
        self._report(Progressed(task, "start", description, total, unit))
        return _RelayedTask(task, self._report)


class _RelayedTask:
    def __init__(self, task: int, report: Callable[[Progressed], None]) -> None:
        self._task = task
        self._report = report

    def advance(self, amount: int) -> None:
        self._report(Progressed(self._task, "advance", amount=amount))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._report(Progressed(self._task, "end"))


class ProgressReplay:
    """Shows what a `ProgressRelay` reports. May be used from several threads.

    Args:
        progress: Shows it.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[int, ProgressTask] = {}
        self._lock = Lock()
        self._closed = False

    def show(self, report: Progressed) -> None:
        """Show one change; nothing is shown once it is closed."""
        with self._lock:
            if self._closed:
                return
            if report.change == "start":
                task = self._progress.start(report.description, total=report.amount, unit=report.unit)
                self._tasks[report.task] = task.__enter__()
            elif report.change == "advance":
                self._tasks[report.task].advance(report.amount or 0)
            else:
                self._tasks.pop(report.task).__exit__(None, None, None)

    def close(self) -> None:
        """End the work that nobody ended."""
        with self._lock:
            self._closed = True
            while self._tasks:
                self._tasks.popitem()[1].__exit__(None, None, None)
