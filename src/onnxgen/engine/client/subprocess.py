"""An engine in a process of its own, with which no crash, leak or lock of it can touch this one.

The process is a fresh interpreter, never a fork, that does not import the caller's main module again, so a
script needs no guard, and an interactive session will do. Its standard input and output are the pipes::

    this process                                      the engine's process
    send ── queue ── writer thread ══ commands ══════> reader thread ── queue ── main thread: serve
    EngineLife <──── reader thread <═════ reports ═══ main thread
               <──── watcher thread, which waits for the process to end

Ends and what tells of them: the process dies: the watcher, at once. This process dies: the pipe of commands
ends. Interrupts from the terminal reach both, and the engine's process does not heed them.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from functools import partial
from queue import SimpleQueue
from typing import IO

from onnxgen.engine.client.base import Receiver, Recipe
from onnxgen.engine.client.client import EngineClient
from onnxgen.engine.client.frames import FrameReader, FrameWriter, encode
from onnxgen.engine.client.log_relay import wanted_level
from onnxgen.engine.client.messages import Command, SealedSubmit, Stop, Submit
from onnxgen.errors import ConfigError, EngineDeadError, OptionError
from onnxgen.foundations.progress import Progress

_log = logging.getLogger(__name__)
_LAST_WORDS_S = 2.0
_THREADS = 3


def in_subprocess(recipe: Recipe) -> EngineClient:
    """A client whose engine runs in a process of its own; `EngineClient.start` makes it.

    Args:
        recipe: Makes the core there; picklable by reference, as functions of modules and `ModelRecipe` are.
    """
    return EngineClient(partial(ProcessLink, recipe))


class ProcessLink:
    """A process that makes, steps and closes a core, and the threads that talk with it.

    Args:
        recipe: Makes the core there.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []

    @property
    def pid(self) -> int | None:
        """The process, once it was started."""
        return None if self._process is None else self._process.pid

    def start(self, receiver: Receiver, *, progress: Progress) -> None:
        """Begin to make the core in its process.

        Raises:
            ConfigError: The recipe cannot be sent to another process, or no interpreter can be started.
        """
        del progress  # comes back through reports, to the receiver
        try:
            first = encode(self._recipe)
        except Exception as cause:
            raise ConfigError(
                f"the recipe {self._recipe!r:.80} cannot be sent to a process of its own ({cause}); give a function "
                "of a module, or run the engine in this process"
            ) from cause
        self._process = _spawn()
        requests, reports = self._process.stdin, self._process.stdout
        assert requests is not None
        assert reports is not None
        reader = self._thread("reader", partial(_read, reports, receiver))
        self._thread("writer", partial(_write, requests, first, self._frames))
        self._thread("watcher", partial(_watch, self._process, reader, self._frames, receiver))

    def send(self, command: Command) -> None:
        """Queue a command; after the process's end nobody takes it.

        Raises:
            OptionError: It cannot be pickled.
        """
        try:
            frame = encode(SealedSubmit.of(command) if isinstance(command, Submit) else command)
        except Exception as cause:
            raise OptionError(
                f"the request cannot be sent to the engine's process: {cause}; run the engine in this process, or give "
                "what can be pickled"
            ) from cause
        self._frames.put(frame)

    def close(self, *, timeout_s: float) -> bool:
        """Stop after the step that is under way; after ``timeout_s`` kill the process."""
        process = self._process
        if process is None:
            return True
        self._frames.put(encode(Stop()))
        if len(self._threads) < _THREADS:  # start() was interrupted
            process.kill()
            process.wait()
            return True
        *others, watcher = self._threads
        if watcher is threading.current_thread():
            return True
        watcher.join(timeout_s)
        if watcher.is_alive():
            if timeout_s:
                _log.warning("the engine's process %d is still at work; it is ended by force", process.pid)
            process.kill()
            watcher.join()
        for thread in others:
            if thread is not threading.current_thread():
                thread.join(_LAST_WORDS_S)
        return True

    def _thread(self, name: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=f"onnxgen-engine-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread


def _spawn() -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise ConfigError("this interpreter does not know its own executable; run the engine in this process")
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from onnxgen.engine.client.worker import main; "
        f"main(log_level={wanted_level()})"
    )
    with _interrupts_held_back():
        try:
            return subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except OSError as cause:
            raise ConfigError(
                f"{sys.executable} cannot be started: {cause}; run the engine in this process"
            ) from cause


@contextlib.contextmanager
def _interrupts_held_back() -> Generator[None]:
    """A process that is started in here is not interrupted before it has said that it will not heed it."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _read(reports: IO[bytes], receiver: Receiver) -> None:
    frames = FrameReader(reports.fileno())
    try:
        with contextlib.suppress(EOFError, OSError), reports:
            while True:
                receiver.receive(frames.read())
    except Exception as failure:  # noqa: BLE001 - whatever it is, nobody would hear of the engine any more
        _log.exception("what the engine's process reports cannot be read")
        error = EngineDeadError(f"what the engine's process reports cannot be read: {failure}")
        error.__cause__ = failure
        receiver.end(error)


def _write(requests: IO[bytes], first: bytes, frames: SimpleQueue[bytes | None]) -> None:
    """Write the recipe, then what is queued, perhaps from before the process was started."""
    writer = FrameWriter(requests.fileno())
    with contextlib.suppress(OSError), requests:
        writer.write(first)
        while (frame := frames.get()) is not None:
            writer.write(frame)


def _watch(
    process: subprocess.Popen[bytes],
    reader: threading.Thread,
    frames: SimpleQueue[bytes | None],
    receiver: Receiver,
) -> None:
    code = process.wait()
    reader.join(_LAST_WORDS_S)  # what it said before it died counts; a grandchild may hold the pipe open
    frames.put(None)
    receiver.end(EngineDeadError(f"the engine's process {process.pid} {_cause_of_death(code)}"))


def _cause_of_death(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    hint = "; the system may have run out of memory" if -code == getattr(signal, "SIGKILL", 9) else ""
    return f"was killed by signal {-code}{name}{hint}"
