"""Where the time of steps goes, by kernel and by what it computes in the graph."""

from __future__ import annotations

import re

import numpy as np

from onnxgen.backends.profile import KernelTime, StepProfile
from onnxgen.graph.cpu.step.table import StepTable

_NUMBER = re.compile(r"(?<=[./_])\d+(?=[./_]|$)")


class StepProfiler:
    """Adds up what the rows of tables took."""

    def __init__(self) -> None:
        self._steps = 0
        self._seconds = 0.0
        self._calls: dict[str, int] = {}
        self._nanoseconds: dict[str, int] = {}

    def add_pass(self, table: StepTable, counts: np.ndarray, nanoseconds: np.ndarray) -> None:
        """Add a walk of a table.

        Args:
            table: Its rows.
            counts: int64 ``[rows]``: parts of each; rows without any were left out.
            nanoseconds: int64 ``[rows]``: what each took.
        """
        for row in np.flatnonzero(counts).tolist():
            kind = row_kind(table, row)
            self._calls[kind] = self._calls.get(kind, 0) + 1
            self._nanoseconds[kind] = self._nanoseconds.get(kind, 0) + int(nanoseconds[row])

    def add_step(self, seconds: float) -> None:
        """Add the wall time of a step."""
        self._steps += 1
        self._seconds += seconds

    def result(self) -> StepProfile:
        """What was added until now."""
        times = [
            KernelTime(kind, calls, self._nanoseconds[kind] / 1e9) for kind, calls in self._calls.items()
        ]
        return StepProfile(
            self._steps, self._seconds, tuple(sorted(times, key=lambda time: time.seconds, reverse=True))
        )


def row_kind(table: StepTable, row: int) -> str:
    """The kernel and the node it stands for, the same for all layers: ``block_product /layers.*/mlp/down_proj``."""
    kernel = table.kernels[row]
    name, label = kernel.name.partition("[")[0], table.labels[row]
    return name if label == kernel.name else f"{name} {_NUMBER.sub('*', label)}"
