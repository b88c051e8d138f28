"""``python -m onnxgen.conformance.models``: model files against ONNX Runtime on the same random feeds."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgen.conformance.compare import MismatchError, check_value
from onnxgen.conformance.feeds import candidate_sizes, num_elements, open_dims, random_feeds
from onnxgen.graph.session import InferenceSession

_MOST_ELEMENTS = 2_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare each model and print a line for it; 0 when none differs, 1 otherwise."""
    asked = _parser().parse_args(arguments)
    given = {name: int(size) for name, size in (text.split("=", 1) for text in asked.dim)}
    bad = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in _model_files(asked.paths):
            verdict = compare_model(path, asked.providers.split(","), given, seed=asked.seed, rtol=asked.rtol)
            bad += not verdict.startswith("equal")
            print(f"{path}: {verdict}", flush=True)
    return int(bad > 0)


def compare_model(
    path: Path, providers: Sequence[str], sizes: Mapping[str, int], *, seed: int, rtol: float
) -> str:
    """Run one model in both runtimes, twice with other sizes; a phrase that begins with ``equal`` or says what differs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the peer raises what it likes
        return f"equal in nothing to compare: ONNX Runtime does not load it ({_first_line(error)})"
    start = time.perf_counter()
    try:
        session = InferenceSession(path, providers=list(providers))
    except Exception as error:  # noqa: BLE001 - a report, not a handler
        return f"not loaded: {type(error).__name__}: {_first_line(error)}"
    load_s = time.perf_counter() - start
    runs = _runs_that_the_peer_accepts(peer, sizes, seed=seed, wanted=2)
    if not runs:
        return "equal in nothing to compare: ONNX Runtime refuses every size that was tried"
    ratios: list[float] = []
    for feeds, expected, peer_s in runs:
        seconds = float("inf")
        for _ in range(3):  # the first run of a size, a prepared one, a repeated one
            start = time.perf_counter()
            try:
                found = session.run(None, feeds)
            except Exception as error:  # noqa: BLE001 - a report, not a handler
                return f"fails: {type(error).__name__}: {_first_line(error)} at {_shapes(feeds)}"
            seconds = min(seconds, time.perf_counter() - start)
            try:
                for output, one, other in zip(peer.get_outputs(), found, expected, strict=True):
                    check_value(one, other, rtol=rtol, atol=rtol * _scale(other), where=output.name)
            except MismatchError as mismatch:
                return f"differs: {mismatch} at {_shapes(feeds)}"
        ratios.append(seconds / peer_s)
    shapes = "; ".join(_shapes(feeds) for feeds, _, _ in runs)
    return f"equal at {shapes}; loaded in {load_s:.2f} s, {max(ratios):.1f} x ONNX Runtime's time"


def _runs_that_the_peer_accepts(
    peer: Any, sizes: Mapping[str, int], *, seed: int, wanted: int
) -> list[tuple[dict[str, Any], list[Any], float]]:
    inputs = peer.get_inputs()
    runs: list[tuple[dict[str, Any], list[Any], float]] = []
    candidates = candidate_sizes(open_dims(inputs), sizes, seed=seed)
    for candidate, below in itertools.product(candidates, (8, 2)):  # some indices have two values only
        if num_elements(inputs, candidate) > _MOST_ELEMENTS:
            continue
        feeds = random_feeds(inputs, candidate, seed=seed, below=below)
        if any(_shapes(feeds) == _shapes(other) for other, _, _ in runs):
            continue
        try:
            expected = peer.run(None, feeds)
            runs.append((feeds, expected, min(_timed(peer, feeds) for _ in range(3))))
        except Exception:  # noqa: BLE001, S112 - sizes that do not fit the model are skipped
            continue
        if len(runs) == wanted:
            break
    return runs


def _timed(peer: Any, feeds: Mapping[str, Any]) -> float:
    start = time.perf_counter()
    peer.run(None, feeds)
    return time.perf_counter() - start


def _model_files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def _scale(value: Any) -> float:
    """The largest finite magnitude, as the unit of the absolute tolerance."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return 0.0
    return float(np.max(np.abs(np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0))))


def _shapes(feeds: Mapping[str, Any]) -> str:
    return " ".join(f"{name}{list(value.shape)}" for name, value in feeds.items())


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
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="size of an open dimension"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random feeds (%(default)s)")
    parser.add_argument(
        "--rtol", type=float, default=2e-3, help="relative to each output's largest value (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
