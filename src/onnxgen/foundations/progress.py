"""Progress of long work, reported without knowing how it is shown.

The command line shows bars on a terminal and plain lines elsewhere; libraries pass `SILENT`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self


class ProgressTask(AbstractContextManager["ProgressTask"], Protocol):
    """One piece of work in progress. Leaving the ``with`` block ends it."""

    def advance(self, amount: int) -> None:
        """Report ``amount`` more units as done."""
        ...


class Progress(Protocol):
    """Shows pieces of work."""

    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> ProgressTask:
        """Begin a piece of work of ``total`` units (None: unknown)."""
        ...


class _SilentTask:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return None

    def advance(self, amount: int) -> None:
        del amount


class _Silent:
    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> ProgressTask:
        del description, total, unit
        return _SilentTask()


SILENT: Progress = _Silent()

_SHOWN = ContextVar[Progress]("onnxgen_progress", default=SILENT)


@contextmanager
def shown_by(progress: Progress) -> Generator[None]:
    """Long work that turns up below, in this thread, is shown by ``progress``, though nobody hands it down."""
    before = _SHOWN.set(progress)
    try:
        yield
    finally:
        _SHOWN.reset(before)


def current_progress() -> Progress:
    """What shows long work here: that of the innermost `shown_by`, or `SILENT`."""
    return _SHOWN.get()
