"""How long ``onnxgen run MODEL PROMPT`` takes from the shell to its first word, and to its end.

    python benchmarks/bench_start.py smollm2 --rounds 7 --json out.json

Cold runs begin with the model's files dropped from the page cache (Linux); warm ones have them there. The model
must be fetched and built already: run it once before. ``import onnxgen`` and an interpreter that does nothing
are measured beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measuring import Series, conditions, folder_megabytes, interleaved, save

from onnxgen.facade.resolve import resolve_model
from onnxgen.foundations.config_sources import load_runtime_config

PROMPT = "What is the capital of France?"


def _first_output_and_end(command: Sequence[str]) -> tuple[float, float]:
    """Seconds until the first byte on standard output, and until the process has ended."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        first = time.perf_counter() - started
        process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return first, time.perf_counter() - started


def _drop_from_page_cache(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_file() and hasattr(os, "posix_fadvise"):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="as for 'onnxgen run'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=8, help="length of the answer")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = resolve_model(args.model, config=load_runtime_config().config)
    run = [str(Path(sys.executable).with_name("onnxgen")), "run", args.model, PROMPT]
    run += ["--temperature", "0", "--max-new-tokens", str(args.tokens)]

    def cold_first() -> float:
        _drop_from_page_cache(folder)
        return _first_output_and_end(run)[0]

    results = interleaved(
        {
            "python -c pass": lambda: _first_output_and_end([sys.executable, "-c", "pass"])[1],
            "import onnxgen": lambda: _first_output_and_end([sys.executable, "-c", "import onnxgen"])[1],
            "warm, first output": lambda: _first_output_and_end(run)[0],
            "warm, end": lambda: _first_output_and_end(run)[1],
            "cold, first output": cold_first,
        },
        rounds=args.rounds,
    )
    for name, series in results.items():
        print(f"{name:20s} {series.median:6.2f} s   foreign load up to {max(series.foreign_cpus):.2f} CPUs")
    about = conditions(["onnxgen", "onnxruntime"], model=args.model, model_mb=folder_megabytes(folder))
    save(args.json, {"conditions": about, "unit": "seconds", "results": _plain(results)})


def _plain(results: dict[str, Series]) -> dict[str, object]:
    return {
        name: {
            "median": round(series.median, 3),
            "values": [round(value, 3) for value in series.values],
            "foreign_cpus": series.foreign_cpus,
        }
        for name, series in results.items()
    }


if __name__ == "__main__":
    main()
