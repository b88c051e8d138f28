"""The memory through which the threads of a step speak: its words and sizes."""

from __future__ import annotations

from enum import IntEnum

LINE_BYTES = 64
"""A cache line: words on different ones do not disturb each other."""

ROW_WORDS = 32
"""int64 words of a row: the kernel's code and up to 31 arguments."""

ROW_BYTES = 8 * ROW_WORDS

SPINS_BEFORE_YIELD = 200
"""Looks of a waiting thread before it offers its core to others: some microseconds, longer than parts differ on a quiet machine."""

LOOKS_PER_CLOCK = 64
"""Looks of an idle worker between two at the clock."""

MOST_WORKERS = 255


class Control(IntEnum):
    """Cache lines of the control block, one word each.

    Attributes:
        EPOCH: Number of the open step; 0 when none is open.
        INSIDE: Workers that walk it.
        STOP: Not 0: workers end.
        COMING: Not 0: a step is about to open, or open.
        YIELD: Address of the system's function that offers the core to others.
        CLOCK: Address of the system's clock.
        REQUEST: Where the open step's words (`Request`) lie, one after the other.
        ASLEEP: From here on one line a worker: 1 when it waits to be woken.
    """

    EPOCH = 0
    INSIDE = 1
    STOP = 2
    COMING = 3
    YIELD = 4
    CLOCK = 5
    REQUEST = 6
    ASLEEP = 8


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
