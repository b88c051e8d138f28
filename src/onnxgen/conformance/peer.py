"""ONNX Runtime as the peer of a comparison: what it computes for a model, optimized and as it stands."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxgen.conformance.candidate_sizes import candidate_sizes
from onnxgen.conformance.differences import largest_difference
from onnxgen.graph.session.random_feeds import complete_sizes, open_dims, random_feeds, shapes

_MOST_ELEMENTS = 500_000
_NUDGES = 3


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One run of the peer.

    Attributes:
        feeds: What it was fed.
        expected: What the model gives as it stands, without optimizations.
        spread: How far optimizations, or inputs that are off by a millionth, move the outputs, as `largest_difference`
            measures it. Where integers are rounded, one that lies half-way changes everything behind it.
        seconds: The least time of an optimized run.
    """

    feeds: Mapping[str, Any]
    expected: list[Any]
    spread: float
    seconds: float


class Peer:
    """Sessions of ONNX Runtime for one model."""

    def __init__(self, path: Path) -> None:
        """Load the model twice; raises what ONNX Runtime raises where it refuses it."""
        self._plain = open_peer(str(path), optimized=False)
        self._optimized = open_peer(str(path), optimized=True)
        self.inputs: list[Any] = self._plain.get_inputs()
        self.output_names: list[str] = [output.name for output in self._plain.get_outputs()]

    def accepted_runs(
        self, sizes: Mapping[str, int], values: Mapping[str, float], *, seed: int, wanted: int
    ) -> list[PeerRun]:
        """Runs on random feeds of different shapes, as many as wanted or as the peer accepts."""
        runs: list[PeerRun] = []
        seen: set[str] = set()
        candidates = candidate_sizes(open_dims(self.inputs), sizes, seed=seed)
        for candidate, below in itertools.product(candidates, (8, 2)):  # some indices have two values only
            every = complete_sizes(self.inputs, candidate)
            elements = sum(map(math.prod, shapes(self.inputs, every).values()))
            if elements > _MOST_ELEMENTS and runs:
                continue
            feeds = random_feeds(self.inputs, every, seed=seed, below=below, values=values)
            if shapes_text(feeds) in seen:
                continue
            run = self._run(feeds)
            if run is not None:
                runs.append(run)
                seen.add(shapes_text(feeds))
            if len(runs) == wanted:
                break
        return runs

    def _run(self, feeds: Mapping[str, Any]) -> PeerRun | None:
        seconds: list[float] = []
        try:
            expected: list[Any] = self._plain.run(None, feeds)
            optimized: list[Any] = []
            for _ in range(3):
                start = time.perf_counter()
                optimized = self._optimized.run(None, feeds)
                seconds.append(time.perf_counter() - start)
            moved = [self._plain.run(None, _nudged(feeds, seed)) for seed in range(_NUDGES)]
        except Exception:  # noqa: BLE001 - the peer raises what it likes for sizes that do not fit the model
            return None
        spread = max(largest_difference(other, expected) for other in (optimized, *moved))
        return PeerRun(feeds, expected, spread, min(seconds))


def _nudged(feeds: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The same feeds, floating-point numbers off by up to a millionth."""
    random = np.random.default_rng(seed)
    return {
        name: (value * (1 + 1e-6 * random.uniform(-1, 1, value.shape))).astype(value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in feeds.items()
    }


def shapes_text(feeds: Mapping[str, Any]) -> str:
    """The shapes of feeds, for people."""
    return " ".join(f"{name}{list(value.shape)}" for name, value in feeds.items())


def open_peer(model: str | bytes, *, optimized: bool) -> Any:
    """A session of ONNX Runtime for a file's path or content.

    Without optimizations it has one thread: what several threads share (votes of trees, rows that are quantized
    together) depends on how many there are.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 0 if optimized else 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
