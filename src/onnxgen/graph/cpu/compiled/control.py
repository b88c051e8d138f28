"""The memory through which the threads of a step speak: its words and sizes."""

from __future__ import annotations

from enum import IntEnum

LINE_BYTES = 64
"""A cache line: words on different ones do not disturb each other."""

ROW_WORDS = 32
"""int64 words of a row: the kernel's code and up to 31 arguments."""

ROW_BYTES = 8 * ROW_WORDS

SPINS_BEFORE_YIELD = 2000
"""Looks of a waiting thread before it offers its core to others."""

MOST_WORKERS = 255


class Control(IntEnum):
    """Cache lines of the control block, one word each.

    Attributes:
        EPOCH: Number of the open step; 0 when none is open.
        INSIDE: Workers that walk it.
        LIMIT: Workers below this number may join.
        STOP: Not 0: workers end.
        TABLE: Address of the first row.
        COUNTS: Address of the numbers of parts.
        STATE: Address of the counters.
        ROWS: Number of rows.
        STEP: Address of the step's header.
        YIELD: Address of the system's function that offers the core to others.
        ASLEEP: From here on one line a worker: 1 when it waits to be woken.
    """

    EPOCH = 0
    INSIDE = 1
    LIMIT = 2
    STOP = 3
    TABLE = 4
    COUNTS = 5
    STATE = 6
    ROWS = 7
    STEP = 8
    YIELD = 9
    ASLEEP = 10


CONTROL_BYTES = LINE_BYTES * (Control.ASLEEP + MOST_WORKERS)
