"""Threads that walk the table of a step together.

    table   one row a kernel call: word 0 is the kernel's code, its arguments follow
    counts  int64 [rows]: parts of each row in this step
    state   two counters a row, each on a cache line of its own: parts claimed, parts done

Each thread goes through all rows. It claims parts of a row until none are left, and begins the next row when the last part of
this one is done, whoever does it. A thread that comes late finds the rows before it done: nobody waits for it.

The control block is what the leading thread and the others speak through; each word is on a cache line of its own.
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
)
from onnxgen.graph.cpu.compiled.control import LINE_BYTES, ROW_BYTES, SPINS_BEFORE_YIELD, Control
from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.kernel import ints64, word

_EPOCH, _INSIDE, _LIMIT, _STOP, _ASLEEP = (
    int(name) * LINE_BYTES
    for name in (Control.EPOCH, Control.INSIDE, Control.LIMIT, Control.STOP, Control.ASLEEP)
)
_TABLE, _COUNTS, _STATE, _ROWS, _STEP, _YIELD = (
    int(name) * LINE_BYTES
    for name in (
        Control.TABLE,
        Control.COUNTS,
        Control.STATE,
        Control.ROWS,
        Control.STEP,
        Control.YIELD,
    )
)
_LINE, _ROW, _SPINS = int(LINE_BYTES), int(ROW_BYTES), int(SPINS_BEFORE_YIELD)


@inline
def _walk(control: int, scratch: int) -> None:
    table, counts, state = word(control + _TABLE, 0), word(control + _COUNTS, 0), word(control + _STATE, 0)
    rows, step, yield_code = (
        word(control + _ROWS, 0),
        word(control + _STEP, 0),
        word(control + _YIELD, 0),
    )
    for index in range(rows):
        row, claimed = table + index * _ROW, state + index * 2 * _LINE
        done, parts, code = claimed + _LINE, word(counts, index), word(row, 0)
        if atomic_load(done) >= parts:
            continue
        while True:
            part = atomic_add(claimed, 1)
            if part >= parts:
                break
            call_kernel(code, row, step, scratch, part, parts)
            atomic_add(done, 1)
        spins = 0
        while atomic_load(done) < parts:
            pause()
            spins += 1
            if spins >= _SPINS:
                call_plain(yield_code)
                spins = 0


def wait_until_left() -> Callable[..., int]:
    """``wait(control, 0, 0, 0, 0)``: until no worker is inside the closed step, whose memory is free then."""

    def wait(control: int, unused: int, unused2: int, unused3: int, unused4: int) -> int:
        spins = 0
        while atomic_load(control + _INSIDE) != 0:
            pause()
            spins += 1
            if spins >= _SPINS:
                call_plain(word(control + _YIELD, 0))
                spins = 0
        return 0

    return wait


def open_step() -> Callable[..., int]:
    """``open(control, epoch, workers, waking, 0)``: let workers in; which of them must be woken, one bit each."""

    def open_it(control: int, epoch: int, workers: int, waking: int, unused: int) -> int:
        state, rows = word(control + _STATE, 0), word(control + _ROWS, 0)
        counters = ints64(state, rows * 2 * _LINE // 8)
        for index in range(rows * 2):
            counters[index * (_LINE // 8)] = 0
        atomic_store(control + _EPOCH, epoch)
        asleep = 0
        for worker in range(min(workers, waking)):
            if atomic_exchange(control + _ASLEEP + worker * _LINE, 0) != 0:
                asleep |= 1 << worker
        return asleep

    return open_it


def lead() -> Callable[..., int]:
    """``lead(control, scratch, 0, 0, 0)``: walk the open step and close it."""

    def lead_it(control: int, scratch: int, unused: int, unused2: int, unused3: int) -> int:
        _walk(control, scratch)
        atomic_store(control + _EPOCH, 0)
        return 0

    return lead_it


def serve() -> Callable[..., int]:
    """``serve(control, scratch, worker, patience, 0)``: walk steps as they open; 1 when asleep, 0 when told to stop.

    Returns when no step has opened for ``patience`` looks.
    """

    def serve_it(control: int, scratch: int, worker: int, patience: int, unused: int) -> int:
        last, looks, spins = 0, 0, 0
        asleep = control + _ASLEEP + worker * _LINE
        while True:
            if atomic_load(control + _STOP) != 0:
                return 0
            epoch = atomic_load(control + _EPOCH)
            if epoch not in (0, last) and worker < atomic_load(control + _LIMIT):
                atomic_add(control + _INSIDE, 1)
                # Closed meanwhile, the step may already be another's.
                if atomic_load(control + _EPOCH) == epoch:
                    _walk(control, scratch)
                    last, looks = epoch, 0
                atomic_add(control + _INSIDE, -1)
                continue
            pause()
            looks += 1
            spins += 1
            if spins >= _SPINS:
                call_plain(word(control + _YIELD, 0))
                spins = 0
            if looks >= patience:
                atomic_store(asleep, 1)
                epoch = atomic_load(control + _EPOCH)
                # A step that opened before this thread was seen asleep would not wake it.
                missed = epoch not in (0, last) and worker < atomic_load(control + _LIMIT)
                if not missed or atomic_exchange(asleep, 0) == 0:
                    return 1
                looks = 0

    return serve_it
