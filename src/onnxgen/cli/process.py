"""What a command does to its own process before anything else: encodings and signals."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn


def prepare_process() -> None:
    """Make output never fail on a character, and make termination clean up like any other exit."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        if isinstance(stream, io.TextIOWrapper):
            # Windows code pages cannot write what models say
            encoding = "utf-8" if sys.platform == "win32" else None
            stream.reconfigure(encoding=encoding, errors="replace")
    signal.signal(signal.SIGTERM, _terminate)


def _open_missing_streams() -> None:
    """Whoever started us may have closed standard streams; to Python they are None then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - open until the process ends
            setattr(sys, name, stream)


def exit_if_told() -> None:
    """Exit if a signal said so and the exit was lost, as in an import that catches everything."""
    if _told:
        sys.exit(128 + _told[0])


_told: list[int] = []


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    _told.append(number)
    sys.exit(128 + number)
