"""What grammars cost and save: steps of an engine whose requests follow a schema, beside steps of one whose requests do not.

    python benchmarks/bench_grammars.py FOLDER [--parallel 16] [--tokens 96] [--backend native] [--temperature 1.0]

Two engines on one loaded model answer the same prompts, one with a schema and one without, to the same length. They take
turns, step by step, so that both see the same machine, and each step is compared with the other's at the same length. Then
the engine with the schema runs once more with tokens that must follow written without the model. Prints medians in
milliseconds, what the schema costs per token, where that goes, and how many steps are saved.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.core import EngineCore
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.stats import StepStats
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.scheduler.config import SchedulerConfig

QUESTION = "<|im_start|>user\nList {count} things of a shop, as JSON.<|im_end|>\n<|im_start|>assistant\n"
RECORDS = {  # so many that no answer ends before its length is reached
    "type": "array",
    "minItems": 60,
    "items": {
        "type": "object",
        "properties": {
            "identifier": {"type": "integer", "minimum": 0},
            "description": {"type": "string"},
            "category": {"enum": ["household", "garden", "electronics", "clothing"]},
            "available": {"type": "boolean"},
            "price": {"type": "number"},
        },
        "required": ["identifier", "description", "category", "available", "price"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class Bench:
    """A loaded model, and how it is asked."""

    spec: ModelSpec
    backend: Backend
    grammars: GrammarCompiler
    parallel: int
    tokens: int
    prompts: list[list[int]]
    temperature: float

    def engine(self) -> EngineCore:
        room = max(map(len, self.prompts)) + self.tokens + 16
        config = EngineConfig(
            scheduler=SchedulerConfig(max_seqs=self.parallel),
            max_seq_tokens=room,
            cache_tokens=self.parallel * (room + 32),
            prefix_reuse=False,
        )
        return engine_of(self.spec, self.backend, config, grammars=self.grammars)

    def submit(self, core: EngineCore, grammar: Grammar | None) -> None:
        for i in range(self.parallel):
            core.submit(
                EngineRequest(
                    self.prompts[i],
                    sampling=SamplingOptions(temperature=self.temperature, seed=i),
                    max_new_tokens=self.tokens,
                    ignore_eos=grammar is None,  # the schema lets none end
                    grammar=grammar,
                )
            )


def step(core: EngineCore) -> StepStats | None:
    """One step; its figures if every sequence computed one token."""
    core.step()
    stats = core.last_step
    assert stats is not None
    return stats if stats.prefill_tokens == 0 else None


def compare(bench: Bench, grammar: Grammar) -> tuple[list[StepStats], list[StepStats]]:
    """Figures of steps without and with a grammar, in pairs, by turns."""
    pairs: tuple[list[StepStats], list[StepStats]] = [], []
    with contextlib.closing(bench.engine()) as free, contextlib.closing(bench.engine()) as bound:
        bench.submit(free, None)
        bench.submit(bound, grammar)
        turn = 0
        while free.has_work and bound.has_work:
            order = (free, bound) if turn % 2 else (bound, free)
            found = {id(core): step(core) for core in order}
            pair = found[id(free)], found[id(bound)]
            if all(pair) and all(s.num_seqs == bench.parallel for s in pair if s):
                for one, stats in zip(pairs, pair, strict=True):
                    one.append(stats)  # type: ignore[arg-type]
            turn += 1
    return pairs


def run(bench: Bench, grammar: Grammar | None) -> tuple[float, int, int]:
    """Seconds from the first token on, tokens, and steps of one run."""
    with contextlib.closing(bench.engine()) as core:
        bench.submit(core, grammar)
        core.step()
        begin, steps, before = time.perf_counter(), 0, core.stats().generated_tokens
        while core.has_work:
            core.step()
            steps += 1
        return time.perf_counter() - begin, core.stats().generated_tokens - before, steps


def median_ms(values: list[float]) -> float:
    return statistics.median(values) * 1e3


def show_cost(free: list[StepStats], bound: list[StepStats]) -> None:
    ratios = [b.total_s / f.total_s for f, b in zip(free, bound, strict=True)]
    print(
        f"a step: {median_ms([s.total_s for s in free]):.2f} ms without, "
        f"{median_ms([s.total_s for s in bound]):.2f} ms with the schema; "
        f"median of {len(ratios)} pairs {100 * (statistics.median(ratios) - 1):+.1f} %"
    )
    for name in ("plan_s", "execute_s", "sample_s"):
        first, second = ([getattr(s, name) for s in steps] for steps in (free, bound))
        print(f"  {name.removesuffix('_s'):8} {median_ms(first):7.3f} ms {median_ms(second):7.3f} ms")
    rest = [[s.total_s - s.plan_s - s.execute_s - s.sample_s for s in steps] for steps in (free, bound)]
    print(f"  settle   {median_ms(rest[0]):7.3f} ms {median_ms(rest[1]):7.3f} ms")


def show_gain(bench: Bench, grammar: Grammar, rounds: int) -> None:
    compact = Grammar.json_schema(RECORDS | {"x-guidance": {"whitespace_flexible": False}})
    grammars = {
        "without a schema": None,
        "schema, each token asked for": grammar.with_fast_forward(False),
        "schema, forced tokens written": grammar,
        "without blanks, each token asked for": compact.with_fast_forward(False),
        "without blanks, forced tokens written": compact,
    }
    for one in grammars.values():
        run(bench, one)  # compiles
    found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in grammars}
    for _ in range(rounds):
        for name, one in grammars.items():
            found[name].append(run(bench, one))
    for name, runs in found.items():
        per_token = statistics.median(seconds / tokens for seconds, tokens, _ in runs)
        print(f"  {name:38} {per_token * 1e3:7.3f} ms a token, {runs[0][1]} tokens in {runs[0][2]} steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--backend", default="native")
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args()
    spec = load_model_spec(asked.folder)
    with contextlib.closing(
        load_backend(spec.decoder, RuntimeConfig(backend=asked.backend, threads=asked.threads))
    ) as backend:
        tokenizer = Tokenizer.from_folder(asked.folder, model_vocab_size=backend.vocab_size)
        grammars = GrammarCompiler(tokenizer, vocab_size=backend.vocab_size, eos_ids=spec.tokens.eos)
        grammar = Grammar.json_schema(RECORDS)
        begin = time.perf_counter()
        grammars.compile(grammar)
        print(f"compiled in {time.perf_counter() - begin:.3f} s, with the tokenizer")
        prompts = [tokenizer.encode(QUESTION.format(count=i + 10)) for i in range(asked.parallel)]
        bench = Bench(spec, backend, grammars, asked.parallel, asked.tokens, prompts, asked.temperature)
        print(
            f"{asked.parallel} in parallel, {asked.tokens} tokens each, {asked.backend}, temperature {asked.temperature:g}"
        )
        show_cost(*compare(bench, grammar.with_fast_forward(False)))
        if asked.rounds:
            show_gain(bench, grammar, asked.rounds)
        grammars.close()


if __name__ == "__main__":
    main()
