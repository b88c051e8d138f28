"""The threads that walk steps: the caller's own, and workers that stay.

A worker looks for the next step for a while, then sleeps until it is woken, so that a decode loop finds it awake and an idle
process costs nothing. Steps of several Python threads take turns; a step for one thread alone waits for nobody. A forked child
starts without workers.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from typing import Any

import numpy as np

from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.control import CONTROL_BYTES, LINE_BYTES, MOST_WORKERS, Control
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.system_calls import SystemCalls, system_calls
from onnxgen.graph.cpu.step.table import StepTable
from onnxgen.graph.cpu.step.walkers import LEAD, LEAD_PROFILED, SERVE
from onnxgen.graph.ep.threads import most_threads

SCRATCH_BYTES = 4 << 20
"""Memory of each thread for the kernel that it runs."""

PATIENCE_S = 0.004
"""How long a worker looks for the next step before it sleeps: longer than the next token takes to be chosen."""

_LEAVE_S = 2.0
"""How long the end of the process waits for a worker."""


class Crew:
    """Threads that run steps together. May be used from several threads."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._system = system_calls()
        self._shared = _Seat(self._system)
        self._seats = threading.local()
        self._workers: list[threading.Thread] = []
        self._semaphores: list[int] = []
        self._epoch = 0
        self._last: tuple[Any, ...] = ()
        self._is_closed = False
        self._serve = entry(SERVE)

    def run(
        self,
        table: StepTable,
        counts: np.ndarray,
        header: np.ndarray,
        *,
        threads: int,
        spinning: bool = True,
        profile: np.ndarray | None = None,
    ) -> None:
        """Run the calls of a table; all is done when it returns. A table runs once at a time, its buffers are its own.

        Args:
            table: The calls.
            counts: int64 ``[rows]``: parts of each, from `StepTable.counts`.
            header: int64 words as `onnxgen.graph.cpu.compiled.header` says.
            threads: The most that work on it, the caller's among them; fewer where `limited_threads` says so.
            spinning: Whether workers stay awake for a while after it.
            profile: int64 ``[rows]`` for the nanoseconds that each row took, waiting included; None measures nothing.
        """
        assert len(counts) == len(table), f"{len(counts)} counts of {len(table)} rows"
        words, helpers = table.words, self._helpers(threads)
        # The caller's may change while a late worker still looks at them.
        counts = counts.copy()
        patience = int(PATIENCE_S * self._system.ticks_per_second) if spinning else 0
        request = np.array(
            [
                *(words.ctypes.data, counts.ctypes.data, table.state_address, len(words), header.ctypes.data),
                *(helpers, patience, 0 if profile is None else profile.ctypes.data),
            ],
            np.int64,
        )
        lead = entry(LEAD if profile is None else LEAD_PROFILED)
        if helpers == 0:
            seat = self._own_seat()
            lead(seat.control, seat.scratch, request.ctypes.data, 1)
        else:
            with self._turn:
                self._hire(helpers)
                self._epoch += 1
                lead(self._shared.control, self._shared.scratch, request.ctypes.data, self._epoch)
                # What late workers may still look at lives until the next step.
                self._last = (words, table.state, counts, header)
        if profile is not None and self._system.ticks_per_second != 1_000_000_000:
            profile *= 1_000_000_000 // self._system.ticks_per_second

    def close(self) -> None:
        """End the workers; steps run on the caller's thread from then on."""
        with self._turn:
            self._is_closed = True
            self._shared.set(Control.STOP, 1)
            for semaphore in self._semaphores:
                self._system.signal(semaphore)
        for worker in self._workers:
            worker.join(_LEAVE_S)

    @property
    def num_workers(self) -> int:
        """Threads that were started so far."""
        return len(self._workers)

    def _helpers(self, threads: int) -> int:
        return 0 if self._is_closed else max(0, min(most_threads(threads) - 1, MOST_WORKERS))

    def _own_seat(self) -> _Seat:
        seat = getattr(self._seats, "own", None)
        if seat is None:
            seat = self._seats.own = _Seat(self._system)
        return seat

    def _hire(self, helpers: int) -> None:
        for worker in range(len(self._workers), helpers):
            semaphore = self._system.new_semaphore()
            self._shared.set(Control.ASLEEP + worker, semaphore, 1)
            thread = threading.Thread(
                target=self._work, args=(worker,), name=f"onnxgen-step-{worker}", daemon=True
            )
            thread.start()
            self._semaphores.append(semaphore)
            self._workers.append(thread)

    def _work(self, worker: int) -> None:
        seat = _Seat(self._system)
        self._serve(self._shared.control, seat.scratch, worker)


class _Seat:
    """Memory of one thread: a control block, and scratch for kernels."""

    def __init__(self, system: SystemCalls) -> None:
        self._control, self._scratch = aligned(CONTROL_BYTES), aligned(SCRATCH_BYTES)
        self._words = self._control.view(np.int64)
        self.control, self.scratch = self._control.ctypes.data, self._scratch.ctypes.data
        for name, address in system.addresses.items():
            self.set(Control.SYSTEM, address, name)

    def set(self, line: int, value: int, word: int = 0) -> None:
        self._words[line * LINE_BYTES // 8 + word] = value


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


@cache
def entry(kernel: StepKernel) -> Entry:
    """A kernel of the process's own store, to be called from Python."""
    return Entry(default_store().address(kernel))


@cache
def _crews() -> list[Crew]:
    return []


@cache
def _making() -> threading.Lock:
    return threading.Lock()


def crew() -> Crew:
    """The crew of this process."""
    crews = _crews()
    if not crews:
        with _making():
            if not crews:
                crews.append(Crew())
    return crews[0]


def _close() -> None:
    for each in _crews():
        each.close()


def _forget() -> None:
    _crews.cache_clear()
    _making.cache_clear()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
