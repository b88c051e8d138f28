"""Threads of a step: what a row costs, what waking costs, and both beside Numba's parallel loops, on a quiet and on a busy machine.

A step is ROWS regions one after the other, each cut into as many parts as there are threads; a part is a chain of multiplications.
The same chain runs as a table of our own threads and as ``prange`` in one function compiled by Numba, with its OpenMP and its
workqueue threads. Each contestant lives in a process of its own, because a process has one kind of Numba's threads.

    python benchmarks/bench_crew.py --threads 2 --json crew.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from measuring import conditions, save

ROWS = 300
CONTESTANTS = ("crew", "omp", "workqueue")
WORKS = (0, 2_000, 20_000)
"""Multiplications of a part: none, 2 and 20 microseconds or so."""

_NAME = "onnxgen.graph.cpu.compiled.bench_crew"


def chain():
    from onnxgen.graph.cpu.compiled.kernel import floats, word

    def kernel(row, step, scratch, part, parts):
        value, turns = np.float32(part + 1), word(row, 2)
        for _ in range(turns):
            value = value * np.float32(1.0000001) + np.float32(0.5)
        floats(word(row, 1), 16 * parts)[16 * part] = value

    return kernel


class CrewStep:
    def __init__(self, threads: int, work: int, rows: int = ROWS) -> None:
        from onnxgen.graph.cpu.step.crew import crew
        from onnxgen.graph.cpu.step.kernel import step_kernel
        from onnxgen.graph.cpu.step.table import StepShape, StepTable

        sys.modules[_NAME] = sys.modules[__name__]
        kernel = step_kernel("bench_crew:chain", ("results", "turns"))
        self.results, self.threads = np.zeros(16 * threads, np.float32), threads
        self.table, self.header = StepTable(), np.zeros(32, np.int64)
        for _ in range(rows):
            self.table.add(kernel, parts=threads, results=self.results.ctypes.data, turns=work)
        self.counts, self.crew = self.table.counts(StepShape(1, 1)), crew()

    def __call__(self) -> None:
        self.crew.run(self.table, self.counts, self.header, threads=self.threads)


class NumbaStep:
    def __init__(self, threads: int, work: int, rows: int = ROWS) -> None:
        import numba

        numba.set_num_threads(threads)
        self.results = np.zeros(16 * threads, np.float32)

        @numba.njit(parallel=True, nogil=True, fastmath={"contract"})
        def step(results, parts, turns, rows):
            for _ in range(rows):
                for part in numba.prange(parts):
                    value = np.float32(part + 1)
                    for _ in range(turns):
                        value = value * np.float32(1.0000001) + np.float32(0.5)
                    results[16 * part] = value

        self.step, self.arguments = step, (self.results, threads, work, rows)

    def __call__(self) -> None:
        self.step(*self.arguments)


def measured(step, *, rest_s: float = 0.0, seconds: float = 0.6) -> list[float]:
    """Microseconds of each call within some seconds, at least five; with a rest before each."""
    step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        time.sleep(rest_s)
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    return times


def contestant(kind: str, threads: int) -> dict[str, float]:
    make = CrewStep if kind == "crew" else NumbaStep
    found: dict[str, float] = {}
    for work in WORKS:
        times = measured(make(threads, work))
        found[f"row_us.work_{work}"] = statistics.median(times) / ROWS
        found[f"row_us.work_{work}.p95"] = sorted(times)[int(len(times) * 0.95)] / ROWS
    alone = measured(make(1, WORKS[-1]), seconds=0.3)
    found[f"row_us.one_thread.work_{WORKS[-1]}"] = statistics.median(alone) / ROWS
    # One row with work for both: what a step costs whose helpers are awake, and asleep.
    single = make(threads, 500_000, rows=1)
    found["step_us.awake"] = statistics.median(measured(single))
    found["step_us.after_50_ms"] = statistics.median(measured(single, rest_s=0.05))
    found["idle_cpus"] = idle_cpus(single)
    return {name: round(value, 3) for name, value in found.items()}


def idle_cpus(step) -> float:
    """Processor time that the threads take in the half second after a step, as a share of one core."""
    step()
    before, seconds = time.process_time(), 0.5
    time.sleep(seconds)
    return (time.process_time() - before) / seconds


def busy() -> None:
    while True:
        sum(range(10_000))


def run(kind: str, threads: int, *, neighbours: int) -> dict[str, float]:
    others = [
        multiprocessing.get_context("spawn").Process(target=busy, daemon=True) for _ in range(neighbours)
    ]
    for other in others:
        other.start()
    time.sleep(0.5 * bool(others))
    try:
        environment = os.environ | ({} if kind == "crew" else {"NUMBA_THREADING_LAYER": kind})
        command = [sys.executable, __file__, "--contestant", kind, "--threads", str(threads)]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        return json.loads(output.splitlines()[-1])
    finally:
        for other in others:
            other.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--neighbours", type=int, default=2, help="busy processes of the second round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        print(json.dumps(contestant(options.contestant, options.threads)))
        return
    report: dict[str, dict[str, dict[str, float]]] = {}
    for name, neighbours in (("quiet", 0), ("busy", options.neighbours)):
        report[name] = {kind: run(kind, options.threads, neighbours=neighbours) for kind in CONTESTANTS}
        print(f"\n{name}, {options.threads} threads, {neighbours} busy neighbours")
        print(f"{'':30}" + "".join(f"{kind:>12}" for kind in CONTESTANTS))
        for metric in report[name]["crew"]:
            print(f"{metric:30}" + "".join(f"{report[name][kind][metric]:12.2f}" for kind in CONTESTANTS))
    save(options.json, {"conditions": conditions(["numba", "llvmlite"], threads=options.threads), **report})


if __name__ == "__main__":
    main()
