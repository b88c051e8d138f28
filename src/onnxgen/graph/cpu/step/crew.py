"""The threads that walk steps: the caller's own, and workers that stay.

A worker looks for the next step for a while, then sleeps until it is woken, so that a decode loop finds it awake and an idle
process costs nothing. Steps of several Python threads take turns. A forked child starts without workers.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import cache
from typing import Any

import numpy as np

from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.control import CONTROL_BYTES, LINE_BYTES, MOST_WORKERS, Control
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.table import StepTable

SCRATCH_BYTES = 4 << 20
"""Memory of each thread for the kernel that it runs."""

PATIENCE = 60_000
"""Looks of a worker for the next step before it sleeps: some milliseconds, longer than tokens take to be chosen."""

_WAIT, _OPEN, _LEAD, _SERVE = (
    step_kernel(f"walk:{name}", ()) for name in ("wait_until_left", "open_step", "lead", "serve")
)


class Crew:
    """Threads that run steps together. May be used from several threads; their steps take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._control = aligned(CONTROL_BYTES)
        self._words = self._control.view(np.int64)
        self._wakes: list[threading.Semaphore] = []
        self._scratch = aligned(SCRATCH_BYTES)
        self._epoch = 0
        self._last: tuple[Any, ...] = ()
        self._wait, self._open, self._lead, self._serve = (
            Entry(default_store().address(kernel, gives_value=True))
            for kernel in (_WAIT, _OPEN, _LEAD, _SERVE)
        )
        self._set(Control.YIELD, _yield_address())

    def run(self, table: StepTable, counts: np.ndarray, header: np.ndarray, *, threads: int) -> None:
        """Run the calls of a table.

        Args:
            table: The calls.
            counts: int64 ``[rows]``: parts of each, from `StepTable.counts`.
            header: int64 words as `onnxgen.graph.cpu.compiled.header` says.
            threads: The most that work on it, the caller's among them.
        """
        words, helpers = table.words, max(0, min(threads - 1, MOST_WORKERS))
        with self._turn:
            self._hire(helpers)
            control = self._control.ctypes.data
            # A late worker may still look at the step before: what it looks at lives until then.
            self._wait(control)
            self._last = (table, counts, header, words)
            self._set(Control.LIMIT, helpers)
            self._set(Control.TABLE, words.ctypes.data)
            self._set(Control.COUNTS, counts.ctypes.data)
            self._set(Control.STATE, table.state_address)
            self._set(Control.ROWS, len(words))
            self._set(Control.STEP, header.ctypes.data)
            self._epoch += 1
            asleep = self._open(control, self._epoch, len(self._wakes), helpers)
            for worker in range(asleep.bit_length()):
                if asleep >> worker & 1:
                    self._wakes[worker].release()
            self._lead(control, self._scratch.ctypes.data)

    def _set(self, name: Control, value: int) -> None:
        self._words[name * LINE_BYTES // 8] = value

    def _hire(self, helpers: int) -> None:
        for worker in range(len(self._wakes), helpers):
            wake = threading.Semaphore(0)
            self._wakes.append(wake)
            threading.Thread(
                target=self._work, args=(worker, wake), name=f"onnxgen-step-{worker}", daemon=True
            ).start()

    def _work(self, worker: int, wake: threading.Semaphore) -> None:
        control, scratch = self._control.ctypes.data, aligned(SCRATCH_BYTES)
        while self._serve(control, scratch.ctypes.data, worker, PATIENCE):
            wake.acquire()


class Entry:
    """A compiled function of up to five integers, called without the interpreter lock."""

    def __init__(self, address: int) -> None:
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 5)
        self._function = kind(address)

    def __call__(self, *arguments: int) -> int:
        """Call it; missing integers are 0."""
        result = ctypes.c_int64()
        self._function(ctypes.addressof(result), None, *arguments, *[0] * (5 - len(arguments)))
        return result.value


def _yield_address() -> int:
    """The system's function that offers the core to other threads."""
    if sys.platform == "win32":
        function = ctypes.windll.kernel32.SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _crews() -> list[Crew]:
    return []


def crew() -> Crew:
    """The crew of this process."""
    crews = _crews()
    if not crews:
        crews.append(Crew())
    return crews[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_crews.cache_clear)
