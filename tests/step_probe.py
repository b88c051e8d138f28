"""A step kernel that writes down when each of its parts ran, and steps of it; for tests of the threads that run them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from onnxgen.graph.cpu.step.crew import Crew, crew
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.table import StepShape, StepTable

_NAME = "onnxgen.graph.cpu.compiled.step_probe"
sys.modules[_NAME] = sys.modules[__name__]  # where kernels are looked for

SHAPE = StepShape(tokens=1, rows=1)


def probe():
    """``log`` gets row * 2**20 + part, negative when the part ends, at the place that ``clock`` gives out; then ``work`` turns."""
    from onnxgen.graph.cpu.compiled.atomics import atomic_add, atomic_load
    from onnxgen.graph.cpu.compiled.kernel import ints64, word

    def kernel(row, step, scratch, part, parts):
        clock, log, number = word(row, 1), ints64(word(row, 2), 1 << 30), word(row, 3) * (1 << 20) + part
        log[atomic_add(clock, 1)] = number
        ints64(scratch, 1)[0] = number
        for _ in range(word(row, 4)):
            atomic_load(clock)
        log[atomic_add(clock, 1)] = -number if ints64(scratch, 1)[0] == number else 0

    return kernel


PROBE = step_kernel("step_probe:probe", ("clock", "log", "number", "work"))


class ProbedStep:
    """A table whose rows are probes.

    Args:
        parts: Of each row.
        work: Turns of a loop in each part.
    """

    def __init__(self, parts: Sequence[int], *, work: int = 0) -> None:
        self.parts = list(parts)
        self.clock = np.zeros(1, np.int64)
        self.log = np.zeros(2 * sum(parts) + 2, np.int64)
        self.table = StepTable()
        for number, count in enumerate(self.parts, 1):
            self.table.add(
                PROBE,
                parts=count,
                clock=self.clock.ctypes.data,
                log=self.log.ctypes.data,
                number=number,
                work=work,
            )
        self.counts = self.table.counts(SHAPE)
        self.header = np.zeros(32, np.int64)

    def run(self, threads: int, *, by: Crew | None = None, **options) -> None:
        self.clock[0] = 0
        self.log[:] = 0
        (by or crew()).run(self.table, self.counts, self.header, threads=threads, **options)

    def check(self) -> None:
        """Every part ran once, and no row began before the one before had ended."""
        log = self.log[: int(self.clock[0])].tolist()
        expected = [(row, part) for row, count in enumerate(self.parts, 1) for part in range(count)]
        begun = [divmod(entry, 1 << 20) for entry in log if entry > 0]
        ended = [divmod(-entry, 1 << 20) for entry in log if entry < 0]
        assert sorted(begun) == expected, f"parts {begun} of {self.parts}"
        assert sorted(ended) == expected, f"ends {ended} of {self.parts}"
        rows = [abs(entry) >> 20 for entry in log]
        assert rows == sorted(rows), f"rows out of order: {rows}"
