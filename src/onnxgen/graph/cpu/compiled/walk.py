"""Threads that walk the table of a step together.

    table   one row a kernel call: word 0 is the kernel's code, its arguments follow
    counts  int64 [rows]: parts of each row in this step
    state   counters of each row, each on a cache line of its own: parts done, then parts claimed of each stretch

Each thread goes through all rows. It claims parts of a row until none are left, and begins the next row when the last part of
this one is done, whoever does it. A thread that comes late finds the rows before it done: nobody waits for it.

The parts of a row fall into stretches of neighbours, one for each thread. A thread begins with its own, so that what it reads
lies in one piece, which memory is fastest at, and goes on with what is left of the others'.

The control block is what the leading thread and the others speak through (`onnxgen.graph.cpu.compiled.control`).
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.atomics import (
    atomic_add,
    atomic_exchange,
    atomic_load,
    atomic_store,
    call_kernel,
    call_plain,
    pause,
    ticks,
)
from onnxgen.graph.cpu.compiled.control import (
    LINE_BYTES,
    LOOKS_PER_CLOCK,
    MOST_STRETCHES,
    ROW_BYTES,
    SPINS_BEFORE_YIELD,
    STATE_ROW_BYTES,
    Control,
    Request,
    System,
)
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import ints64, word

_EPOCH, _INSIDE, _STOP, _SYSTEM, _REQUEST, _ASLEEP = (int(name) * LINE_BYTES for name in Control)
_YIELD, _CLOCK, _WAIT, _SIGNAL = (int(name) for name in System)
_TABLE, _COUNTS, _STATE, _ROWS, _STEP, _LIMIT, _PATIENCE, _PROFILE = (int(name) for name in Request)
_REQUEST_WORDS = len(Request)
_STATE_ROW, _MOST_STRETCHES = int(STATE_ROW_BYTES), int(MOST_STRETCHES)
_LINE, _ROW, _SPINS, _LOOKS = int(LINE_BYTES), int(ROW_BYTES), int(SPINS_BEFORE_YIELD), int(LOOKS_PER_CLOCK)


@inline
def _rest(control: int, spins: int) -> int:
    """One look of a waiting thread went by: how many there were since it last offered its core to others."""
    pause()
    if spins < _SPINS:
        return spins + 1
    call_plain(word(control + _SYSTEM, _YIELD), 0, 0)
    return 0


@inline
def _do_row(control: int, scratch: int, index: int, thread: int) -> None:
    """Claim parts of a row until there are none left, and wait until all are done."""
    request = control + _REQUEST
    row, parts = word(request, _TABLE) + index * _ROW, word(word(request, _COUNTS), index)
    done, stretches = word(request, _STATE) + index * _STATE_ROW, _stretches(request)
    if atomic_load(done) < parts:
        for turn in range(stretches):
            stretch = (thread + turn) % stretches
            first, claimed = parts * stretch // stretches, done + (1 + stretch) * _LINE
            size = parts * (stretch + 1) // stretches - first
            while atomic_load(claimed) < size:
                part = atomic_add(claimed, 1)
                if part < size:
                    call_kernel(word(row, 0), row, word(request, _STEP), scratch, first + part, parts)
                    atomic_add(done, 1)
    spins = 0
    while atomic_load(done) < parts:
        spins = _rest(control, spins)


@inline
def _stretches(request: int) -> int:
    return min(word(request, _LIMIT) + 1, _MOST_STRETCHES)


@inline
def _walk(control: int, scratch: int, thread: int) -> None:
    for index in range(word(control + _REQUEST, _ROWS)):
        _do_row(control, scratch, index, thread)


@inline
def _timed_walk(control: int, scratch: int, since: int) -> None:
    rows = word(control + _REQUEST, _ROWS)
    profile, clock = ints64(word(control + _REQUEST, _PROFILE), rows), word(control + _SYSTEM, _CLOCK)
    for index in range(rows):
        _do_row(control, scratch, index, 0)
        now = ticks(clock)
        profile[index] = now - since
        since = now


@inline
def _open(control: int, request: int, epoch: int) -> None:
    # A late worker may still look at the step before.
    spins = 0
    while atomic_load(control + _INSIDE) != 0:
        spins = _rest(control, spins)
    asked, current = ints64(request, _REQUEST_WORDS), ints64(control + _REQUEST, _REQUEST_WORDS)
    for index in range(_REQUEST_WORDS):
        current[index] = asked[index]
    for index in range(asked[_ROWS]):
        counters = ints64(asked[_STATE] + index * _STATE_ROW, _STATE_ROW // 8)
        for line in range(1 + _stretches(request)):
            counters[line * (_LINE // 8)] = 0
    atomic_store(control + _EPOCH, epoch)
    for worker in range(asked[_LIMIT]):
        asleep = control + _ASLEEP + worker * _LINE
        if atomic_load(asleep) != 0 and atomic_exchange(asleep, 0) != 0:
            call_plain(word(control + _SYSTEM, _SIGNAL), word(asleep, 1), 1)


def lead(*, profiled: bool) -> Callable[..., int]:
    """``lead(control, scratch, request, epoch, 0)``: open a step, wake who sleeps, walk it and close it.

    Whoever calls this owns the control block meanwhile. All parts are done when it returns; workers that come late may still
    read the table, the counts and the counters until the next step opens.
    """
    walk = _timed_walk if profiled else _walk

    def lead_it(control: int, scratch: int, request: int, epoch: int, unused: int) -> int:
        # A row may be done by others before this thread, number 0, comes to it.
        start = ticks(word(control + _SYSTEM, _CLOCK)) if profiled else 0
        _open(control, request, epoch)
        walk(control, scratch, start)
        atomic_store(control + _EPOCH, 0)
        return 0

    return lead_it


@inline
def _sleep(control: int, worker: int, last: int) -> None:
    """Wait until a step opens or all is told to stop; may return without either."""
    asleep = control + _ASLEEP + worker * _LINE
    atomic_store(asleep, 1)
    # A step that opened before this thread was seen asleep does not wake it.
    if atomic_load(control + _EPOCH) in (0, last) and atomic_load(control + _STOP) == 0:
        call_plain(word(control + _SYSTEM, _WAIT), word(asleep, 1), -1)
    atomic_store(asleep, 0)


def serve() -> Callable[..., int]:
    """``serve(control, scratch, worker, 0, 0)``: the life of a worker: walk steps as they open until told to stop."""

    def serve_it(control: int, scratch: int, worker: int, unused: int, unused2: int) -> int:
        last, looks, spins = 0, 0, 0
        clock = word(control + _SYSTEM, _CLOCK)
        since = ticks(clock)
        while atomic_load(control + _STOP) == 0:
            epoch = atomic_load(control + _EPOCH)
            if epoch not in (0, last):
                atomic_add(control + _INSIDE, 1)
                # Closed meanwhile, the step may already be another's.
                if atomic_load(control + _EPOCH) == epoch:
                    last = epoch
                    if worker < word(control + _REQUEST, _LIMIT):
                        _walk(control, scratch, worker + 1)
                        since = ticks(clock)
                atomic_add(control + _INSIDE, -1)
                continue
            spins, looks = _rest(control, spins), looks + 1
            if looks % _LOOKS == 0 and ticks(clock) - since >= word(control + _REQUEST, _PATIENCE):
                _sleep(control, worker, last)
                since = ticks(clock)
        return 0

    return serve_it
