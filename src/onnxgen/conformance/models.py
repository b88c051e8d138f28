"""``python -m onnxgen.conformance.models``: model files against ONNX Runtime on the same random feeds."""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgen.conformance.compare import MismatchError, check_value
from onnxgen.conformance.differences import largest_difference, unit_of
from onnxgen.conformance.levels import LEVELS
from onnxgen.conformance.peer import Peer, PeerRun, shapes_text
from onnxgen.graph.session import InferenceSession, SessionOptions

RTOL = 1e-3
"""The default tolerance: relative to each output's largest value."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare each model and print a line for it, then the counts; 0 when none differs or fails, 1 otherwise."""
    asked = _parser().parse_args(arguments)
    sizes = {name: int(size) for name, size in (text.split("=", 1) for text in asked.dim)}
    values = {name: float(value) for name, value in (text.split("=", 1) for text in asked.value)}
    counts: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in model_files(asked.paths):
            verdict = compare_model(
                path, asked.providers.split(","), sizes, values=values, seed=asked.seed, rtol=asked.rtol,
                levels=asked.levels.split(","), num_sizes=asked.sizes,
            )  # fmt: skip
            counts[verdict.split(":", 1)[0].split(" within", 1)[0]] += 1
            print(f"{path}: {verdict}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(bool(counts.keys() - {"equal", "not compared"}))


def compare_model(
    path: Path,
    providers: Sequence[str],
    sizes: Mapping[str, int],
    *,
    seed: int,
    rtol: float = RTOL,
    values: Mapping[str, float] | None = None,
    levels: Sequence[str] = ("disabled", "all"),
    num_sizes: int = 2,
) -> str:
    """Run one model in both runtimes: at each level, on inputs of several sizes, each of them three times.

    What a model gives is what ONNX Runtime computes without optimizations. Where its optimizations, or inputs that are
    off by a millionth, change that by more than the tolerance (quantized models), the tolerance is that difference.

    Args:
        path: The model.
        providers: Ours, in order of preference.
        sizes: Sizes of open dimensions by name.
        seed: Of the feeds.
        rtol: Relative to each output's largest value; for float16 at least 0.01. Integers must be the same.
        values: What inputs are filled with, by name.
        levels: Our optimization levels, as `LEVELS` names them.
        num_sizes: How many sizes of the inputs are tried in one session.

    Returns:
        A phrase that begins with ``equal within``, ``not compared:``, ``not loaded:``, ``fails:`` or ``differs:``.
    """
    try:
        peer = Peer(path)
    except Exception as error:  # noqa: BLE001 - the peer raises what it likes
        return f"not compared: ONNX Runtime does not load it: {_first_line(error)}"
    try:
        runs = peer.accepted_runs(sizes, values or {}, seed=seed, wanted=num_sizes)
    except ValueError as error:
        return f"not compared: {error}"
    if not runs:
        return "not compared: ONNX Runtime refuses every size that was tried"
    worst, ratio, load_s = 0.0, 0.0, 0.0
    for level in levels:
        options = SessionOptions()
        options.graph_optimization_level = LEVELS[level]
        start = time.perf_counter()
        try:
            session = InferenceSession(path, options, providers=list(providers))
        except Exception as error:  # noqa: BLE001 - a report, not a handler
            return f"not loaded: {type(error).__name__}: {_first_line(error)} (level {level})"
        load_s = time.perf_counter() - start
        for run in runs:
            where = f"at {shapes_text(run.feeds)} (level {level})"
            try:
                difference, seconds = _three_runs(session, run, peer.output_names, rtol)
            except MismatchError as mismatch:
                return f"differs: {mismatch} {where}{_spread(run, rtol)}"
            except Exception as error:  # noqa: BLE001 - a report, not a handler
                return f"fails: {type(error).__name__}: {_first_line(error)} {where}"
            worst, ratio = max(worst, difference), max(ratio, seconds / run.seconds)
    shapes = "; ".join(shapes_text(run.feeds) + _spread(run, rtol) for run in runs)
    return (
        f"equal within {worst:.1e} at {shapes}; loaded in {load_s:.2f} s, {ratio:.1f} x ONNX Runtime's time"
    )


def _three_runs(
    session: InferenceSession, run: PeerRun, names: Sequence[str], rtol: float
) -> tuple[float, float]:
    """The largest difference and the least time of the first run of a size, a prepared one and a repeated one."""
    difference, least_s = 0.0, float("inf")
    for _ in range(3):
        start = time.perf_counter()
        found = session.run(None, dict(run.feeds))
        least_s = min(least_s, time.perf_counter() - start)
        for name, one, other in zip(names, found, run.expected, strict=True):
            moved = 1.5 * run.spread if math.isfinite(run.spread) else 0.0
            tolerance = max(rtol, moved, _rounding(other)) * unit_of(other)
            check_value(one, other, rtol=0, atol=tolerance, where=name)  # integers are exact
        difference = max(difference, largest_difference(found, run.expected))
    return difference, least_s


def _rounding(value: Any) -> float:
    """What a few roundings of float16 come to, where that is the type of a value."""
    return 10 * float(np.finfo(np.float16).eps) if getattr(value, "dtype", None) == np.float16 else 0.0


def _spread(run: PeerRun, rtol: float) -> str:
    return f" (ONNX Runtime itself moves by {run.spread:.1e})" if run.spread > rtol else ""


def model_files(paths: Sequence[str]) -> Iterator[Path]:
    """The files themselves, and every ``*.onnx`` in folders."""
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnxgen.conformance.models",
        description="Compare models with ONNX Runtime on the same random feeds.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="model files, or folders to search for *.onnx"
    )
    parser.add_argument("--providers", default="cpu,reference", help="in order of preference (%(default)s)")
    parser.add_argument("--levels", default="disabled,all", help="of our optimizations (%(default)s)")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="size of an open dimension"
    )
    parser.add_argument(
        "--value", action="append", default=[], metavar="INPUT=NUMBER", help="what an input is filled with"
    )
    parser.add_argument("--sizes", type=int, default=2, help="of inputs, in one session (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random feeds (%(default)s)")
    parser.add_argument(
        "--rtol", type=float, default=RTOL, help="relative to each output's largest value (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
