"""The prompt of a one-shot command: its argument, standard input, or both."""

from __future__ import annotations

import os
import stat
import sys
import threading
from typing import IO

from onnxgen.cli.terminal import note
from onnxgen.errors import OptionError

_NOTICE_AFTER_S = 2.0
STDIN = "-"


def combined_prompt(argument: str, stdin: IO[str]) -> str:
    """The argument followed by what is piped in; ``-`` stands for standard input alone.

    Raises:
        OptionError: ``-`` was given and nothing came, or came from a terminal.
    """
    if argument == STDIN:
        text = _read_all(stdin)
        if not text.strip():
            raise OptionError("the prompt is '-', standard input, but nothing came from there")
        return text
    if not _is_piped(stdin):
        return argument
    piped = _read_all(stdin).strip("\n")
    return f"{argument}\n\n{piped}" if piped.strip() else argument


def _is_piped(stdin: IO[str]) -> bool:
    """Whether something was put there on purpose: a pipe or a file, not a terminal or ``/dev/null``."""
    if stdin.isatty():
        return False
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return True  # no descriptor: an object in memory
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_all(stdin: IO[str]) -> str:
    # a pipe that its other end keeps open would wait forever without a word
    notice = threading.Timer(
        _NOTICE_AFTER_S, note, ["reading standard input until it ends; add </dev/null to leave it out"]
    )
    notice.daemon = True
    notice.start()
    try:
        return stdin.read()
    except UnicodeDecodeError as cause:
        raise OptionError(f"standard input is not text in {sys.stdin.encoding}: {cause}") from cause
    finally:
        notice.cancel()
