"""The trace that a session keeps when it is asked to."""

from __future__ import annotations

from datetime import datetime

from onnxgen.foundations.tracing import OFF, Tracer, TraceRecorder


class Profile:
    """Loading and runs of a session, from its start until somebody wants the file.

    Args:
        enabled: Whether there is anything to keep.
        prefix: Beginning of the file's path; the time of the start is appended.

    Attributes:
        tracer: Where spans go.
    """

    def __init__(self, *, enabled: bool, prefix: str) -> None:
        self._recorder = TraceRecorder() if enabled else None
        self._enabled = enabled
        self._prefix = prefix
        self._started = datetime.now()
        self.tracer: Tracer = self._recorder or OFF

    @property
    def start_ns(self) -> int:
        """When it began, in nanoseconds since 1970; 0 where nothing was kept."""
        return int(self._started.timestamp() * 1e9) if self._enabled else 0

    def end(self) -> str:
        """Write the file and keep nothing from now on.

        Returns:
            Path of the file; empty where there is nothing to write.

        Raises:
            OSError: it cannot be written.
        """
        recorder, self._recorder, self.tracer = self._recorder, None, OFF
        if recorder is None:
            return ""
        moment = f"{self._started:%Y-%m-%d_%H-%M-%S}_{self._started.microsecond // 1000:03d}"
        path = f"{self._prefix}_{moment}.json"
        recorder.write(path)
        return path
