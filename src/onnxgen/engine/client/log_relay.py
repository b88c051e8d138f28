"""Log records of one process, written in another."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from onnxgen.engine.client.messages import Logged

_ROOT = "onnxgen"


class LogRelay(logging.Handler):
    """Reports log records; their text is made here, so that nothing else of them need cross.

    Args:
        report: Is told of every record.
    """

    def __init__(self, report: Callable[[Logged], None]) -> None:
        super().__init__()
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Report a record."""
        try:
            trace = None
            if record.exc_info is not None and record.exc_info[0] is not None:
                trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            self._report(Logged(record.name, record.levelno, record.getMessage(), trace, record.created))
        except Exception:  # noqa: BLE001 - as handlers of the standard library do
            self.handleError(record)


def relay_logs(report: Callable[[Logged], None], *, level: int) -> None:
    """Report what this process logs of the project from a level on, and write it nowhere else."""
    logger = logging.getLogger(_ROOT)
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(LogRelay(report))


def wanted_level() -> int:
    """From which level on this process wants to hear of records."""
    return logging.getLogger(_ROOT).getEffectiveLevel()


def write_log(record: Logged) -> None:
    """Log here what another process logged."""
    logger = logging.getLogger(record.logger)
    if not logger.isEnabledFor(record.level):
        return
    made = logger.makeRecord(record.logger, record.level, "", 0, "%s", (record.text,), None)
    made.exc_text = record.trace  # formatters write it below the message
    made.created, made.msecs = record.created_s, record.created_s % 1 * 1000
    logger.handle(made)
