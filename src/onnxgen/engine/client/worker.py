"""The engine's process, from its first line to its last."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import Any

from onnxgen.engine.client.frames import FrameReader, FrameWriter, encode
from onnxgen.engine.client.log_relay import relay_logs
from onnxgen.engine.client.messages import Command, Ended, Report, Stop
from onnxgen.engine.client.portable import portable
from onnxgen.engine.client.progress_relay import ProgressRelay
from onnxgen.engine.client.serve import serve
from onnxgen.foundations.progress import shown_by

_log = logging.getLogger(__name__)

_PARENT_CHECK_S = 1.0
_FAREWELL_S = 2.0


def main(*, log_level: int) -> None:
    """Serve the parent process until it says stop, or is no more.

    Args:
        log_level: From which level on the parent wants to hear what is logged.
    """
    _leave_signals_to_the_parent()
    requests, reports = _take_pipes()
    parent = os.getppid()
    reader, writer = FrameReader(requests), FrameWriter(reports)

    def report(what: Report) -> None:
        with contextlib.suppress(OSError):  # the parent is no more; the reader sees it too
            writer.write(encode(_with_traceback(what)))

    relay_logs(report, level=log_level)
    try:
        recipe = reader.read()
    except EOFError:
        return
    except Exception as failure:  # noqa: BLE001 - told to the parent
        report(Ended(portable(failure)))
        return
    commands: SimpleQueue[Command] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, reader, commands, parent), daemon=True).start()
    with shown_by(ProgressRelay(report)):
        serve(recipe, commands, report)


def _leave_signals_to_the_parent() -> None:
    """A terminal interrupts, and a service manager ends, all processes at once; the parent decides what it means."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _take_pipes() -> tuple[int, int]:
    """Standard input and output under numbers of their own; what others print goes to standard error."""
    requests, reports = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, reports


def _read(requests: int, reader: FrameReader, commands: SimpleQueue[Command], parent: int) -> None:
    """Queue commands until there can be no more, and see to it that the process ends then."""
    try:
        while _wait(requests, parent):
            command = reader.read()
            commands.put(command)
            if isinstance(command, Stop):
                return
    except EOFError:
        pass
    except Exception:  # noqa: BLE001 - whatever it is, nobody would hear of the parent any more
        _log.exception("a command of the parent's cannot be read")
        os._exit(1)
    commands.put(Stop())
    threading.Event().wait(_FAREWELL_S)
    os._exit(1)  # loading, or a step, takes longer than anybody waits for


def _wait(requests: int, parent: int) -> bool:
    """Wait for a command; False once the parent is no more.

    The end of the pipe says so too, unless a process that was forked from the parent holds its other end.
    """
    if sys.platform == "win32":
        return True  # no forks there, and pipes that cannot be waited for
    while not select.select([requests], [], [], _PARENT_CHECK_S)[0]:
        if os.getppid() != parent:
            return False
    return True


def _with_traceback(what: Report) -> Report:
    """What caused an error stays behind in this process: say where it was raised."""
    error: Any = what.error if isinstance(what, Ended) else None
    if error is not None and error.__cause__ is not None and not hasattr(error, "__notes__"):
        error.add_note(
            "in the engine's process:\n" + "".join(traceback.format_exception(error.__cause__)).rstrip()
        )
    return what
