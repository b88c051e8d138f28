"""Fair measurements on a shared machine: idle waits, a watch for foreign load, interleaved rounds, medians."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

QUIET_LIMIT = 0.08
"""CPUs that other processes may take during a run; a run beside more is repeated."""


def prompt_ids(count: int, vocab_size: int, *, seed: int = 1) -> list[int]:
    """Ordinary token ids that no cache has seen, the same for every contestant."""
    state = (1103515245 * (seed + 12345)) & 0x7FFFFFFF
    ids: list[int] = []
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        ids.append(100 + (state >> 8) % (min(vocab_size, 40000) - 200))
    return ids


def _machine_seconds() -> float:
    """CPU seconds of all processes so far; None of it is waiting or idle."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        fields = [int(value) for value in file.readline().split()[1:9]]
    return sum(fields[:3] + fields[5:7]) / os.sysconf("SC_CLK_TCK")


def _own_seconds(pids: Sequence[int]) -> float:
    """CPU seconds of this process, of its children that ended, and of the living ones with these ids."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Watch:
    """Measures CPUs that other processes took inside the ``with`` block; 0 where /proc does not tell.

    Args:
        pids: Living child processes that belong to the measurement.
    """

    foreign_cpus = 0.0

    def __init__(self, pids: Sequence[int] = ()) -> None:
        self._pids = pids

    def __enter__(self) -> Self:
        self._start = time.perf_counter(), self._foreign()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        started, before = self._start
        self.foreign_cpus = max(0.0, self._foreign() - before) / max(time.perf_counter() - started, 1e-9)

    def _foreign(self) -> float:
        return _machine_seconds() - _own_seconds(self._pids) if sys.platform == "linux" else 0.0


def wait_until_idle(*, longest_s: float = 8.0, busy_cpus: float = 0.15) -> None:
    """Wait until the machine rests, so that neither a neighbour nor our own spinning threads are measured."""
    deadline = time.monotonic() + longest_s
    while sys.platform == "linux" and time.monotonic() < deadline:
        before = _machine_seconds()
        time.sleep(0.25)
        if (_machine_seconds() - before) / 0.25 < busy_cpus:
            return


@dataclass
class Series:
    """Values of one metric of one contestant, and the foreign load beside each."""

    values: list[float] = field(default_factory=list)
    foreign_cpus: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def interleaved(
    contestants: Mapping[str, Callable[[], float]],
    *,
    rounds: int,
    limit: float = QUIET_LIMIT,
    pids: Sequence[int] = (),
) -> dict[str, Series]:
    """Run all contestants in turns, after one unmeasured turn each; see `quiet_rounds`."""
    for run in contestants.values():
        run()
    kept = quiet_rounds(contestants, rounds=rounds, limit=limit, pids=pids)
    return {
        name: Series([turn[name].value for turn in kept], [turn[name].foreign_cpus for turn in kept])
        for name in contestants
    }


@dataclass(frozen=True)
class Turn(Generic[T]):
    """What one contestant returned in one round, and the CPUs that other processes took meanwhile."""

    value: T
    foreign_cpus: float


def quiet_rounds(
    contestants: Mapping[str, Callable[[], T]],
    *,
    rounds: int,
    limit: float = QUIET_LIMIT,
    pids: Sequence[int] = (),
) -> list[dict[str, Turn[T]]]:
    """Run all contestants in turns, A B C, B C A, so that each is first as often.

    A round in which other processes took more than ``limit`` CPUs beside any contestant is repeated, at most
    once for each round asked for; then the quietest rounds are kept. ``pids`` are child processes that the
    contestants live in.
    """
    attempts: list[dict[str, Turn[T]]] = []
    names = list(contestants)
    for number in range(2 * rounds):
        attempt: dict[str, Turn[T]] = {}
        first = number % len(names)
        for name in names[first:] + names[:first]:
            wait_until_idle()
            with Watch(pids) as watch:
                value = contestants[name]()
            attempt[name] = Turn(value, round(watch.foreign_cpus, 3))
        attempts.append(attempt)
        if sum(_noise(a) <= limit for a in attempts) >= rounds:
            break
    return sorted(attempts, key=_noise)[:rounds]


def _noise(attempt: Mapping[str, Turn[Any]]) -> float:
    return max(turn.foreign_cpus for turn in attempt.values())


def conditions(packages: Sequence[str], **more: Any) -> dict[str, Any]:
    """What a figure is worth nothing without: command, date, machine, versions, and ``more``."""
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {_cpu_name()}",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        **more,
    }


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def folder_megabytes(folder: Path) -> float:
    """Size of all files of a model folder."""
    return round(sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6, 1)


def save(path: Path | None, report: Mapping[str, Any]) -> None:
    """Write a report as JSON, if a path is given."""
    if path is not None:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
