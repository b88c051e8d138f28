"""Where the time of steps goes, by kernel and by what it computes in the graph."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from onnxgen.backends.profile import KernelTime, StepProfile
from onnxgen.graph.cpu.step.table import StepTable

_NUMBER = re.compile(r"(?<=[./_])\d+(?=[./_]|$)")


class StepProfiler:
    """Collects what the rows of tables took; names are looked up when all is over, for that takes time too."""

    def __init__(self) -> None:
        self._steps = 0
        self._seconds = 0.0
        self._passes: list[tuple[StepTable, np.ndarray, np.ndarray]] = []

    def add_pass(self, table: StepTable, counts: np.ndarray, nanoseconds: np.ndarray) -> None:
        """Add a walk of a table; what is given must stay as it is.

        Args:
            table: Its rows.
            counts: int64 ``[rows]``: parts of each; rows without any were left out.
            nanoseconds: int64 ``[rows]``: what each took.
        """
        self._passes.append((table, counts, nanoseconds))

    def add_step(self, seconds: float) -> None:
        """Add the wall time of a step."""
        self._steps += 1
        self._seconds += seconds

    def result(self) -> StepProfile:
        """What was added until now."""
        calls: dict[str, int] = defaultdict(int)
        nanoseconds: dict[str, int] = defaultdict(int)
        for table, counts, taken in self._passes:
            for row in np.flatnonzero(counts).tolist():
                kind = row_kind(table, row)
                calls[kind] += 1
                nanoseconds[kind] += int(taken[row])
        times = [KernelTime(kind, calls[kind], nanoseconds[kind] / 1e9) for kind in calls]
        return StepProfile(
            self._steps, self._seconds, tuple(sorted(times, key=lambda time: time.seconds, reverse=True))
        )


def row_kind(table: StepTable, row: int) -> str:
    """The kernel and the node it stands for, the same for all layers: ``block_product /layers.*/mlp/down_proj``."""
    kernel = table.kernels[row]
    name, label = kernel.name.partition("[")[0], table.labels[row]
    return name if label == kernel.name else f"{name} {_NUMBER.sub('*', label)}"
