"""An engine in a thread of this process."""

from __future__ import annotations

import logging
import threading
from functools import partial
from queue import SimpleQueue

from onnxgen.engine.client.base import Receiver, Recipe
from onnxgen.engine.client.client import EngineClient
from onnxgen.engine.client.messages import Command, Stop
from onnxgen.engine.client.serve import serve
from onnxgen.foundations.progress import Progress, shown_by

_log = logging.getLogger(__name__)


def in_process(recipe: Recipe) -> EngineClient:
    """A client whose engine runs in a thread of this process; `EngineClient.start` makes it."""
    return EngineClient(partial(ThreadLink, recipe))


class ThreadLink:
    """A thread that makes, steps and closes a core, and the queue of its commands.

    The thread is a daemon's, so that an interpreter that ends waits for it no longer than `EngineClient` says.

    Args:
        recipe: Makes the core.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> None:
        """There is no other process."""

    def start(self, receiver: Receiver, *, progress: Progress) -> None:
        """Begin to make the core in its thread."""
        run = partial(_run, self._recipe, self._commands, receiver, progress)
        self._thread = threading.Thread(target=run, name="onnxgen-engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> None:
        """Queue a command; after the thread's end nobody takes it."""
        self._commands.put(command)

    def close(self, *, timeout_s: float) -> bool:
        """Stop after the step that is under way; False if that takes longer than ``timeout_s``."""
        self._commands.put(Stop())
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():
            return False
        self._thread.join(timeout_s)
        if timeout_s and self._thread.is_alive():
            _log.warning("the engine's thread is still at work after %.1f s; it is left to itself", timeout_s)
        return not self._thread.is_alive()


def _run(recipe: Recipe, commands: SimpleQueue[Command], receiver: Receiver, progress: Progress) -> None:
    with shown_by(progress):
        serve(recipe, commands, receiver.receive)
