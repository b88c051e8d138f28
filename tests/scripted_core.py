"""A core that counts, for tests of what stands between an engine and its callers: it can fail, die and hang.

Sample ``i`` of a request with prompt ``[..., p]`` answers ``p + 1 + 100 * i``, ``p + 2 + 100 * i`` and so on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from pathlib import Path

from onnxgen.engine.events import EngineEvent, TokenUsage
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import ContextLengthError, GrammarError, ModelFileError, OptionError
from onnxgen.foundations.progress import current_progress

ENDLESS = 10**9
REFUSED, CRASHES, KILLED, EXITS, HANGS = 9001, 9002, 9003, 9004, 9005
"""Last tokens of prompts that make the engine do such things: refuse, or, in the request's third step, the others."""

_log = logging.getLogger("onnxgen.scripted")

GATES: dict[str, threading.Event] = {}
"""Patterns that take until their event is set to be made ready, in this process."""


class OnlyThere:
    """Can be read in another process than its writer's, and not again in that one."""

    def __init__(self, writer):
        self.writer = writer

    def __reduce__(self):
        return _only_there, (self.writer,)


def _only_there(writer):
    if os.getpid() == writer:
        raise ValueError("not to be read here")
    return OnlyThere(writer)


class ScriptedCore:
    """Serves requests by counting.

    Args:
        step_s: How long a step takes at least.
        hangs_when_closed: Closing takes forever.
        log: A file that says what was done, for tests that look from outside.
    """

    def __init__(self, *, step_s: float = 0.0, hangs_when_closed: bool = False, log: Path | None = None):
        self._step_s = step_s
        self._hangs = hangs_when_closed
        self._log = log
        self._owner = threading.get_ident()
        self._requests: dict[int, EngineRequest] = {}
        self._produced: dict[tuple[int, int], int] = {}
        self._told: list[EngineEvent] = []
        self._next = 0
        self.steps = 0
        self.closed = 0
        self.calls = 0
        self.cancelled: list[tuple[int, int | None, str]] = []
        self.prepared: list[tuple[str, bool]] = []

    @property
    def has_work(self):
        return bool(self._produced or self._told)

    def prepare(self, request):
        """Takes until the event of the name that the grammar's pattern says is set; refuses what cannot be known."""
        if request.grammar.source == "unknown":
            raise GrammarError("the pattern is not known")
        if request.grammar.source in GATES:
            GATES[request.grammar.source].wait()
        self.prepared.append((request.grammar.source, threading.get_ident() != self._owner))

    def submit(self, request):
        self._own()
        if request.name is not None:
            _log.info("not to be heard of by default")
            _log.warning("took %s", request.name)
        if request.prompt[-1] == REFUSED:
            raise ContextLengthError(
                f"{len(request.prompt)} prompt tokens do not fit the context of 0 tokens"
            )
        number, self._next = self._next, self._next + 1
        self._requests[number] = request
        for index in range(request.n):
            self._produced[number, index] = 0
        return number

    def cancel(self, request_id, *, index=None, reason="cancelled"):
        self._own()
        self.cancelled.append((request_id, index, reason))
        ended = [k for k in self._produced if k[0] == request_id and index in (None, k[1])]
        for key in ended:
            self._told.append(EngineEvent(*key, finish_reason=reason, usage=self._usage(key)))
            del self._produced[key]
        return bool(ended)

    def step(self):
        self._own()
        self.calls += 1
        self.steps += bool(self._produced)
        if self._step_s:
            time.sleep(self._step_s)
        events, self._told = self._told, []
        for key in list(self._produced):
            events.append(self._produce(key))
        return events

    def stats(self):
        self._own()
        return {"steps": self.steps, "cancelled": list(self.cancelled), "pid": os.getpid()}

    def view(self, *, steps, prefixes):
        self._own()
        return ("view", steps, prefixes)

    def reconfigure(self, config):
        self._own()
        if config is None:
            raise OptionError("asked for no configuration")
        return ("reconfigured", config)

    def close(self):
        self._own()
        self.closed += 1
        if self._log is not None:
            self._log.write_text("closed")
        if self._hangs:
            threading.Event().wait()

    def _produce(self, key):
        request = self._requests[key[0]]
        self._produced[key] += 1
        count = self._produced[key]
        last = int(request.prompt[-1])
        if count == 3:
            _misbehave(last)
        token = last + count + 100 * key[1]
        if request.max_new_tokens is not None and count >= request.max_new_tokens:
            usage = self._usage(key)
            del self._produced[key]
            return EngineEvent(*key, token, finish_reason="length", usage=usage)
        return EngineEvent(*key, token)

    def _usage(self, key):
        return TokenUsage(len(self._requests[key[0]].prompt), self._produced[key], 0)

    def _own(self):
        assert threading.get_ident() == self._owner, "the core is called from another thread"


def _misbehave(how):
    if how == CRASHES:
        raise ZeroDivisionError("the core fails because the script says so")
    if how == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == EXITS:
        os._exit(7)
    if how == HANGS:
        threading.Event().wait()


@contextlib.contextmanager
def open_core(**options):
    core = ScriptedCore(**options)
    try:
        yield core
    finally:
        core.close()


def fast():
    return open_core()


def hangs_when_closed():
    return open_core(hangs_when_closed=True)


def noisy():
    print("printed by the engine's process")
    return open_core()


def shows_progress():
    with current_progress().start("compiling", total=3, unit="kernels") as task:
        task.advance(1)
        task.advance(2)
    return open_core()


def is_no_model():
    raise ModelFileError("model.onnx is empty (0 bytes)")


def cannot_be_made():
    raise ZeroDivisionError("no core")


def dies_while_loading():
    os.kill(os.getpid(), signal.SIGKILL)


def loads_forever(tell):
    """Says in a file (a pipe, for who waits for it) which process it is."""
    Path(tell).write_text(f"{os.getpid()}\n")
    threading.Event().wait()
