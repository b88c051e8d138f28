"""Quality beside speed: how far a quantized folder's logits are from float32, by each backend.

    python benchmarks/quality.py FOLDER --exact FLOAT32_FOLDER [--backends native,ort] [--json OUT]

FLOAT32_FOLDER is the same model in float32, run by ONNX Runtime. Shown for each backend that runs FOLDER: the mean
Kullback-Leibler divergence of the next-token distribution over a fixed text, how often the most likely token is the same, and for
greedy answers to fixed prompts how many of their tokens come before the first that differs from float32's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from onnxgen.backends.base import SequenceInput, pack_step
from onnxgen.facade.config import Config
from onnxgen.facade.model import Model
from onnxgen.foundations.runtime_config import RuntimeConfig

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "real"
CHUNK = 128


class Run:
    """A folder on a backend."""

    def __init__(self, folder: Path, backend: str, threads: int) -> None:
        self.model = Model(Config(folder), runtime=RuntimeConfig(backend=backend, threads=threads))
        self.backend = self.model.backend

    def blocks(self, cache) -> list[int]:
        return list(range(cache.geometry.num_blocks))

    def log_probabilities(self, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """float64 ``[CHUNK, vocab]`` after each of the tokens, piece by piece."""
        cache = self.backend.create_cache(num_seqs=1, num_tokens=len(ids))
        for start in range(0, len(ids), CHUNK):
            piece = ids[start : start + CHUNK]
            used = -(-(start + len(piece)) // cache.geometry.block_size)
            part = SequenceInput(piece, context_len=start, blocks=self.blocks(cache)[:used], logits="all")
            logits = self.backend.execute(pack_step([part]), cache).logits.astype(np.float64)
            logits -= logits.max(axis=-1, keepdims=True)
            yield logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        cache.close()

    def greedy(self, prompt: Sequence[int], new_tokens: int) -> list[int]:
        """The most likely tokens after a prompt."""
        cache, tokens = (
            self.backend.create_cache(num_seqs=1, num_tokens=len(prompt) + new_tokens),
            list(prompt),
        )
        done = 0
        for _ in range(new_tokens):
            used = -(-len(tokens) // cache.geometry.block_size)
            part = SequenceInput(tokens[done:], context_len=done, blocks=self.blocks(cache)[:used])
            done = len(tokens)
            tokens.append(int(self.backend.execute(pack_step([part]), cache).logits[0].argmax()))
        cache.close()
        return tokens[len(prompt) :]

    def close(self) -> None:
        self.model.close()


def measure(
    exact: Run, tested: Run, ids: Sequence[int], prompts: Sequence[Sequence[int]], new_tokens: int
) -> dict:
    """The figures of one backend."""
    divergences, same = [], []
    for p, q in zip(exact.log_probabilities(ids), tested.log_probabilities(ids), strict=True):
        divergences.append((np.exp(p) * (p - q)).sum(axis=-1))
        same.append(p.argmax(axis=-1) == q.argmax(axis=-1))
    common = []
    for prompt in prompts:
        want, got = exact.greedy(prompt, new_tokens), tested.greedy(prompt, new_tokens)
        common.append(next((i for i, (a, b) in enumerate(zip(want, got, strict=True)) if a != b), new_tokens))
    every = np.concatenate(divergences)
    return {
        "kl_mean": float(every.mean()),
        "kl_p99": float(np.quantile(every, 0.99)),
        "same_top1": float(np.concatenate(same).mean()),
        "greedy_tokens_before_difference": common,
        "greedy_whole_answers": sum(n == new_tokens for n in common),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exact", type=Path, required=True)
    parser.add_argument("--golden", default="smollm2", help="text and prompts: a name in tests/goldens/real")
    parser.add_argument("--backends", default="native,ort")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    golden = json.loads((GOLDENS / f"{given.golden}.json").read_text(encoding="utf-8"))
    prompts = [prompt["input_ids"] for prompt in golden["prompts"]]
    new_tokens = len(golden["prompts"][0]["output_ids"])
    exact, results = Run(given.exact, "ort", given.threads), {}
    for backend in given.backends.split(","):
        tested = Run(given.folder, backend, given.threads)
        results[backend] = found = measure(exact, tested, golden["text_ids"], prompts, new_tokens)
        tested.close()
        print(
            f"{backend}: KL {found['kl_mean']:.6f} nats (99 % below {found['kl_p99']:.4f}), same best token "
            f"{found['same_top1']:.2%}, whole greedy answers {found['greedy_whole_answers']}/{len(prompts)}, "
            f"tokens before the first difference {found['greedy_tokens_before_difference']}",
            flush=True,
        )
    exact.close()
    if given.json:
        given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
