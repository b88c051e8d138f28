"""What a session says, through the logging of the process."""

from __future__ import annotations

import logging

from onnxgen.graph.session.options import SessionOptions
from onnxgen.graph.session.run_options import RunOptions

LOGGER = logging.getLogger("onnxgen.graph.session")
"""What all sessions say."""

LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR, 4: logging.CRITICAL}
"""ONNX Runtime's severities."""


class SessionLog:
    """Messages of one session. Severities of its options can silence messages, not force handlers to show them.

    Args:
        options: ``log_severity_level`` and ``logid`` count.
    """

    def __init__(self, options: SessionOptions) -> None:
        self._id = options.logid
        self._least = LEVELS.get(options.log_severity_level, 0)

    def wanted(self, level: int, run_options: RunOptions | None = None) -> bool:
        """Whether a message of that level would be heard."""
        if not LOGGER.isEnabledFor(level):
            return False
        asked = -1 if run_options is None else run_options.log_severity_level
        return level >= LEVELS.get(asked, self._least)

    def say(self, level: int, message: str, *args: object, run_options: RunOptions | None = None) -> None:
        """Log a message, with the ids of the session and the run before it."""
        if self.wanted(level, run_options):
            ids = [self._id, run_options.logid if run_options is not None else ""]
            prefix = "".join(f"[{name}] " for name in ids if name)
            LOGGER.log(level, f"%s{message}", prefix, *args)
