"""The memory through which the threads of a step speak: its words and sizes."""

from __future__ import annotations

from enum import IntEnum

LINE_BYTES = 64
"""A cache line: words on different ones do not disturb each other."""

ROW_WORDS = 32
"""int64 words of a row: the kernel's code and up to 31 arguments."""

ROW_BYTES = 8 * ROW_WORDS

MOST_STRETCHES = 8
"""Pieces of a row's parts that threads begin at; more threads share them."""

STATE_ROW_BYTES = LINE_BYTES * (1 + MOST_STRETCHES)
"""Counters of a row: parts done, and parts claimed of each stretch."""

SPINS_BEFORE_YIELD = 2000
"""Looks of a waiting thread before it offers its core to others: some 50 microseconds, longer than parts differ on a quiet machine."""

LOOKS_PER_CLOCK = 64
"""Looks of an idle worker between two at the clock."""

MOST_WORKERS = 255


class Control(IntEnum):
    """Cache lines of the control block, one word each where nothing else is said.

    Attributes:
        EPOCH: Number of the open step; 0 when none is open.
        INSIDE: Workers that walk it.
        STOP: Not 0: workers end.
        SYSTEM: Addresses of functions of the operating system (`System`), one after the other.
        REQUEST: What the open step is (`Request`), one word after the other.
        ASLEEP: From here on one line a worker: 1 when it waits on its semaphore; after it the semaphore's handle.
    """

    EPOCH = 0
    INSIDE = 1
    STOP = 2
    SYSTEM = 3
    REQUEST = 4
    ASLEEP = 5


class System(IntEnum):
    """Words with the addresses of functions, from SYSTEM on in the control block.

    Attributes:
        YIELD: Offers the core to other threads.
        CLOCK: Tells the time.
        WAIT: Waits on a semaphore.
        SIGNAL: Wakes who waits on it, or who will.
    """

    YIELD = 0
    CLOCK = 1
    WAIT = 2
    SIGNAL = 3


class Request(IntEnum):
    """Words that say what a step is; from REQUEST on in the control block.

    Attributes:
        TABLE: Address of the first row.
        COUNTS: Address of the numbers of parts.
        STATE: Address of the counters.
        ROWS: Number of rows.
        STEP: Address of the step's header.
        LIMIT: Workers below this number may join.
        PATIENCE: How long workers look for the next step before they sleep, in ticks of the clock.
        PROFILE: Address of int64 ``[rows]`` for the ticks that each row took; the profiled walk alone reads it.
    """

    TABLE = 0
    COUNTS = 1
    STATE = 2
    ROWS = 3
    STEP = 4
    LIMIT = 5
    PATIENCE = 6
    PROFILE = 7


CONTROL_BYTES = LINE_BYTES * (Control.ASLEEP + MOST_WORKERS)
