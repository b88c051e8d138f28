"""Traces: what happened when, for https://ui.perfetto.dev and ``chrome://tracing``."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, cast

from onnxgen.foundations.files import write_atomically


class Tracer(Protocol):
    """Is told of spans of time. `OFF` forgets them at once, `TraceRecorder` keeps them."""

    @property
    def enabled(self) -> bool:
        """Whether anybody listens; lets callers spare the work of describing."""
        ...

    def span(self, name: str, category: str, **args: Any) -> AbstractContextManager[Any]:
        """The time inside the ``with`` block; ``args`` describe it. Blocks of a thread nest."""
        ...

    def instant(self, name: str, category: str, **args: Any) -> None:
        """A moment."""
        ...


class _NoSpan:
    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None


_NO_SPAN = _NoSpan()


class _Off:
    __slots__ = ()
    enabled = False

    def span(self, name: str, category: str, **args: Any) -> _NoSpan:
        del name, category, args
        return _NO_SPAN

    def instant(self, name: str, category: str, **args: Any) -> None:
        del name, category, args


OFF: Tracer = _Off()
"""The tracer that listens to nothing."""


class TraceRecorder:
    """Keeps what it is told, from all threads, and writes it as Chrome trace events.

    Args:
        max_events: How many to keep; later ones are counted and dropped.
        clock_ns: A clock that never goes back.
    """

    enabled = True

    def __init__(
        self, *, max_events: int = 1_000_000, clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._max_events = max_events
        self._clock_ns = clock_ns
        self._origin_ns = clock_ns()
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._thread_names: dict[int, str] = {}
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Events that came when the recorder was full."""
        return self._dropped

    def span(self, name: str, category: str, **args: Any) -> AbstractContextManager[None]:
        """Record the block's time. A block that an exception leaves has its type in ``args["error"]``."""
        return _Span(self, name, category, args)

    def instant(self, name: str, category: str, **args: Any) -> None:
        """Record a moment of this thread."""
        self._add(name, category, "i", self._clock_ns(), {"s": "t"}, args)

    def events(self) -> list[dict[str, Any]]:
        """Trace events in the order of their start; process and thread names first."""
        with self._lock:
            events, threads = list(self._events), dict(self._thread_names)
        pid = os.getpid()
        names = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "onnxgen"}},
            *(
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
                for tid, name in threads.items()
            ),
        ]
        # a block that starts together with one inside of it comes first: it is the longer one
        return names + sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0.0)))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a trace file, whole or not at all.

        Raises:
            OSError: It cannot be written.
        """
        document = {
            "traceEvents": self.events(),
            "displayTimeUnit": "ns",
            "otherData": {"dropped_events": self._dropped},
        }
        write_atomically(Path(path), json.dumps(document, allow_nan=False).encode())

    def finish(self, name: str, category: str, begin_ns: int, args: Mapping[str, Any]) -> None:
        """Record a span of this thread that began at a time of `now_ns` and ends now."""
        took_us = (self._clock_ns() - begin_ns) / 1000
        self._add(name, category, "X", begin_ns, {"dur": took_us}, args)

    def now_ns(self) -> int:
        """The recorder's clock."""
        return self._clock_ns()

    def _add(
        self,
        name: str,
        category: str,
        phase: str,
        at_ns: int,
        extra: Mapping[str, Any],
        args: Mapping[str, Any],
    ) -> None:
        thread = threading.current_thread()
        tid = thread.native_id or 0
        event = {
            "ph": phase,
            "name": name,
            "cat": category,
            "ts": (at_ns - self._origin_ns) / 1000,
            "pid": os.getpid(),
            "tid": tid,
            **extra,
            "args": {key: _json_safe(value) for key, value in args.items()},
        }
        with self._lock:
            if len(self._events) >= self._max_events:
                self._dropped += 1
                return
            self._thread_names.setdefault(tid, thread.name)
            self._events.append(event)


class _Span:
    __slots__ = ("_args", "_begin_ns", "_category", "_name", "_recorder")

    def __init__(self, recorder: TraceRecorder, name: str, category: str, args: dict[str, Any]) -> None:
        self._recorder, self._name, self._category, self._args = recorder, name, category, args
        self._begin_ns = 0

    def __enter__(self) -> None:
        self._begin_ns = self._recorder.now_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        args = self._args if kind is None else {**self._args, "error": kind.__name__}
        self._recorder.finish(self._name, self._category, self._begin_ns, args)


def _json_safe(value: Any) -> Any:
    """The value in JSON's types; what JSON has no form for as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _json_safe(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_json_safe(item) for item in cast("Sequence[Any]", value)]
    return str(value)
