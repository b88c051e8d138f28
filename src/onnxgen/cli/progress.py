"""Progress of long work: bars on a terminal, plain lines elsewhere, always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from onnxgen.cli.terminal import is_terminal
from onnxgen.foundations.disk import format_bytes
from onnxgen.foundations.progress import Progress, ProgressTask

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_PLAIN_INTERVAL_S = 0.5


def make_progress() -> Progress:
    """The kind of progress that standard error can show."""
    return Bars() if is_terminal(sys.stderr) else PlainLines(sys.stderr)


class PlainLines:
    """One line for each tenth of the work, and no more than two in a second."""

    def __init__(self, stream: IO[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock

    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> ProgressTask:
        """Begin a piece of work."""
        return _PlainTask(self._stream, self._clock, description, total, unit)


class _PlainTask:
    def __init__(
        self, stream: IO[str], clock: Callable[[], float], description: str, total: int | None, unit: str
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._description = description
        self._total = total
        self._unit = unit
        self._done = 0
        self._tenths = 0
        self._printed_s = clock()
        size = "" if total is None else f" ({self._amount(total)})"
        self._print(f"{description}{size}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if kind is None and self._total is None and self._done:
            self._print(f"{self._description}: done, {self._amount(self._done)}")

    def advance(self, amount: int) -> None:
        self._done += amount
        if not self._total:
            return
        tenths = min(10, 10 * self._done // self._total)
        if tenths == self._tenths:
            return
        if tenths == 10 or self._clock() - self._printed_s >= _PLAIN_INTERVAL_S:
            self._tenths = tenths
            done = self._amount(self._done) if self._unit == "bytes" else self._done
            self._print(f"{self._description}: {10 * tenths} % ({done} of {self._amount(self._total)})")

    def _amount(self, count: int) -> str:
        return format_bytes(count) if self._unit == "bytes" else f"{count} {self._unit}"

    def _print(self, text: str) -> None:
        self._printed_s = self._clock()
        print(text, file=self._stream, flush=True)


class Bars:
    """Bars with amount, rate and remaining time."""

    def __init__(self) -> None:
        self._live: RichProgress | None = None
        self._open_tasks = 0

    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> ProgressTask:
        """Begin a piece of work."""
        if self._live is None:
            self._live = _make_bars()
            self._live.start()
        self._open_tasks += 1
        task = self._live.add_task(description, total=total, unit=unit)
        return _Bar(self._live, task, self._end_one)

    def _end_one(self) -> None:
        self._open_tasks -= 1
        if self._open_tasks == 0 and self._live is not None:
            # a terminal has one set of bars at a time, and text may follow as soon as none is at work
            self._live.stop()
            self._live = None


class _Bar:
    def __init__(self, live: RichProgress, task: TaskID, on_end: Callable[[], None]) -> None:
        self._live = live
        self._task = task
        self._on_end = on_end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._live.stop_task(self._task)
        self._on_end()

    def advance(self, amount: int) -> None:
        self._live.advance(self._task, amount)


def _make_bars() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Amount(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.fields.get("unit") != "bytes":
                return Text(f"{task.completed:.0f}/{task.total or 0:.0f} {task.fields.get('unit', '')}")
            total = "" if task.total is None else f"/{format_bytes(task.total)}"
            speed = task.finished_speed or task.speed
            rate = f" {format_bytes(speed)}/s" if speed else ""
            return Text(f"{format_bytes(task.completed)}{total}{rate}")

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        Amount(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(file=sys.stderr),
    )
