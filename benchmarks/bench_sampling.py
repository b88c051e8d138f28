"""What choosing tokens costs, and their log probabilities: the rows of one engine step, by the options of their requests.

    python benchmarks/bench_sampling.py [--rows 16] [--vocab 49152] [--logits FILE.npy] [--seconds 0.5]

Prints the shortest and the median time of a step in microseconds: logits of a model that is sure (a few tokens far above the
rest), logits of one that knows nothing (normal, so that nuclei hold a third of the vocabulary), and, with ``--logits``, those
of a file, float32 ``[rows, vocab]``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.graph.cpu.logprobs import row_logprobs

OPTIONS = {
    "greedy": {},
    "temperature": {"temperature": 0.8},
    "temperature, top_p": {"temperature": 0.8, "top_p": 0.9},
    "temperature, top_k": {"temperature": 0.8, "top_k": 50},
    "temperature, top_k, top_p": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "the same, penalties": {
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.9,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
    },
    "min_p": {"temperature": 0.8, "min_p": 0.05},
    "typical": {"temperature": 0.8, "typical_p": 0.9},
    "top_n_sigma": {"temperature": 0.8, "top_n_sigma": 1.0},
    "top_a": {"temperature": 0.8, "top_a": 0.2},
    "XTC": {"temperature": 0.8, "xtc_probability": 0.5},
    "top_p, min_p": {"temperature": 0.8, "top_p": 0.9, "min_p": 0.05},
    "mirostat 1": {"temperature": 0.8, "mirostat": 1},
    "mirostat 2": {"temperature": 0.8, "mirostat": 2},
    "all filters": {
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.9,
        "min_p": 0.02,
        "typical_p": 0.9,
        "top_n_sigma": 1.5,
        "top_a": 0.1,
        "xtc_probability": 0.5,
    },
}
TOPS = (0, 5, 20)


@dataclass
class Row:
    """A sequence in the middle of its answer."""

    options: SamplingOptions
    history: np.ndarray
    processors: tuple = ()
    sampler: None = None
    mask: None = None
    row_state: RowState = field(default_factory=RowState)

    @property
    def num_tokens(self) -> int:
        return len(self.history)

    @property
    def num_new_tokens(self) -> int:
        return len(self.history) // 2


def logits_by_name(rows: int, vocab: int, file: Path | None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    flat = rng.normal(scale=2, size=(rows, vocab)).astype(np.float32)
    sure = rng.normal(scale=1.5, size=(rows, vocab)).astype(np.float32)
    for row in sure:
        count = int(rng.integers(5, 60))
        row[rng.integers(vocab, size=count)] += rng.uniform(8, 15, count).astype(np.float32)
    return {"sure": sure, "flat": flat} | ({"file": np.load(file)} if file else {})


def microseconds(step: Callable[[], object], seconds: float) -> list[float]:
    step()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--logits", type=Path)
    parser.add_argument("--seconds", type=float, default=0.5)
    asked = parser.parse_args()
    begin = time.perf_counter()
    sampler = RowSampler(eos_ids=(2,))
    print(f"ready after {time.perf_counter() - begin:.3f} s (the first time on a machine it compiles)")
    history = np.random.default_rng(1).integers(asked.vocab, size=500)
    for kind, logits in logits_by_name(asked.rows, asked.vocab, asked.logits).items():
        for name, options in OPTIONS.items():
            rows = [Row(SamplingOptions(**options, seed=i), history) for i in range(len(logits))]
            show(kind, name, microseconds(partial(sampler.choose, logits, rows), asked.seconds))
        for top in TOPS:
            tokens, tops = [7] * len(logits), [top] * len(logits)
            times = microseconds(partial(row_logprobs, list(logits), tokens, tops), asked.seconds)
            show(kind, f"log probabilities, best {top}", times)


def show(kind: str, name: str, times: list[float]) -> None:
    print(f"{kind:5} {name:27} {min(times):7.0f} us, median {statistics.median(times):7.0f} us", flush=True)


if __name__ == "__main__":
    main()
