"""Progress of a download that another program does, seen by how files grow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnxgen.foundations.disk import file_sizes
from onnxgen.foundations.progress import ProgressTask

POLL_S = 0.1


class GrowthMeter:
    """Reports to a task how far ``measure`` has come, never backwards and never beyond ``total``."""

    def __init__(self, task: ProgressTask, measure: Callable[[], int], *, total: int | None) -> None:
        self._task = task
        self._measure = measure
        self._total = total
        self._reported = 0

    def poll(self) -> None:
        """Look once and report what is new."""
        self._report_up_to(self._measure())

    def finish(self) -> None:
        """Report the rest: the work is done."""
        if self._total is not None:
            self._report_up_to(self._total)

    def _report_up_to(self, amount: int) -> None:
        amount = amount if self._total is None else min(amount, self._total)
        if amount > self._reported:
            self._task.advance(amount - self._reported)
            self._reported = amount


def largest_file(*folders: Path) -> int:
    """Size of the largest file in the folders, in bytes.

    Installers write what they fetch to one file and may then copy it, so that a sum would count twice.
    """
    return max((size for folder in folders for size in file_sizes(folder)), default=0)
