"""Threads that walk the table of a step together.

    table   one row a kernel call: word 0 is the kernel's code, its arguments follow
    counts  int64 [rows]: parts of each row in this step
    state   two counters a row, each on a cache line of its own: parts claimed, parts done

Each thread goes through all rows. It claims parts of a row until none are left, and begins the next row when the last part of
this one is done, whoever does it. A thread that comes late finds the rows before it done: nobody waits for it.

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
    ROW_BYTES,
    SPINS_BEFORE_YIELD,
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
def _do_row(control: int, scratch: int, index: int) -> None:
    """Claim parts of a row until there are none left, and wait until all are done."""
    request = control + _REQUEST
    row, parts = word(request, _TABLE) + index * _ROW, word(word(request, _COUNTS), index)
    claimed = word(request, _STATE) + index * 2 * _LINE
    done = claimed + _LINE
    while atomic_load(claimed) < parts:
        part = atomic_add(claimed, 1)
        if part < parts:
            call_kernel(word(row, 0), row, word(request, _STEP), scratch, part, parts)
            atomic_add(done, 1)
    spins = 0
    while atomic_load(done) < parts:
        spins = _rest(control, spins)


@inline
def _walk(control: int, scratch: int, unused: int) -> None:
    for index in range(word(control + _REQUEST, _ROWS)):
        _do_row(control, scratch, index)


@inline
def _timed_walk(control: int, scratch: int, since: int) -> None:
    rows = word(control + _REQUEST, _ROWS)
    profile, clock = ints64(word(control + _REQUEST, _PROFILE), rows), word(control + _SYSTEM, _CLOCK)
    for index in range(rows):
        _do_row(control, scratch, index)
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
    counters = ints64(asked[_STATE], asked[_ROWS] * 2 * _LINE // 8)
    for index in range(asked[_ROWS] * 2):
        counters[index * (_LINE // 8)] = 0
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
        # A row may be done by others before this thread comes to it.
        since = ticks(word(control + _SYSTEM, _CLOCK)) if profiled else 0
        _open(control, request, epoch)
        walk(control, scratch, since)
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
                        _walk(control, scratch, 0)
                        since = ticks(clock)
                atomic_add(control + _INSIDE, -1)
                continue
            spins, looks = _rest(control, spins), looks + 1
            if looks % _LOOKS == 0 and ticks(clock) - since >= word(control + _REQUEST, _PATIENCE):
                _sleep(control, worker, last)
                since = ticks(clock)
        return 0

    return serve_it
