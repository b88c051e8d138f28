"""What grammars cost and save: whole runs of requests that follow one, beside whole runs of requests that do not.

    python benchmarks/bench_grammars.py FOLDER [--cases records,bounded,tools] [--parallel 16] [--tokens 96] [--rounds 5]

Runs take turns in one process, and all write the same number of tokens: no answer can end before its length is reached.
Each run with a grammar is compared with the free runs right before and after it. Cases::

    records    an array of records, strings of any length
    bounded    the same, strings of at most 40 characters
    typed      records without strings: choices, dates, numbers
    tools      any text, in which tools may be called whose openings are spelled
    written    `records`, with tokens that must follow written without the model
    compact    `records` without blanks
    forced     `compact`, with tokens that must follow written without the model

Prints medians over rounds, their spread, where the time of a step goes, and how many steps there were.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.stats import StepStats
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.answer_grammar import answer_grammar
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.grammar import ToolRule
from onnxgen.preprocess.tool_calls.tools import read_tools
from onnxgen.scheduler.config import SchedulerConfig

QUESTION = "<|im_start|>user\nList {count} things of a shop, as JSON.<|im_end|>\n<|im_start|>assistant\n"
KINDS = ["household", "garden", "electronics", "clothing"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} something",
            "parameters": {
                "type": "object",
                "properties": {"what": {"type": "string"}},
                "required": ["what"],
            },
        },
    }
    for name in ("find_thing", "buy_thing", "sell_thing")
]


def records(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for so many records that no answer ends before its length is reached."""
    return {
        "type": "array",
        "minItems": 60,
        "items": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


def shop(text: Mapping[str, Any]) -> dict[str, Any]:
    """Records of a shop, with texts of a kind."""
    return records(
        identifier={"type": "integer", "minimum": 0},
        description=text,
        category={"enum": KINDS},
        available={"type": "boolean"},
        price={"type": "number"},
    )


def cases(tokenizer: Tokenizer) -> dict[str, Grammar]:
    """The grammars, by name."""
    any_text = shop({"type": "string"})
    compact = any_text | {"x-guidance": {"whitespace_flexible": False}}
    typed = records(
        kind={"enum": KINDS}, bought={"type": "string", "format": "date"}, price={"type": "number"}
    )
    tools = ToolRule(bind(FORMATS["hermes"], tokenizer), read_tools(TOOLS))
    found = answer_grammar(tokenizer, tools=tools)
    assert found is not None
    return {
        "records": Grammar.json_schema(any_text).with_fast_forward(False),
        "bounded": Grammar.json_schema(shop({"type": "string", "maxLength": 40})).with_fast_forward(False),
        "typed": Grammar.json_schema(typed).with_fast_forward(False),
        "tools": Grammar(found.kind, found.source, fast_forward=False),
        "written": Grammar.json_schema(any_text),
        "compact": Grammar.json_schema(compact).with_fast_forward(False),
        "forced": Grammar.json_schema(compact),
    }


@dataclass(frozen=True)
class Run:
    """What one run took.

    Attributes:
        seconds: From the first step to the last.
        tokens: All that were written.
        steps: Those in which every sequence got one token.
    """

    seconds: float
    tokens: int
    steps: list[StepStats]

    @property
    def per_token_ms(self) -> float:
        return self.seconds / self.tokens * 1e3


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

    def run(self, grammar: Grammar | None) -> Run:
        """All requests from the first step to the last token."""
        room = max(map(len, self.prompts)) + self.tokens + 16
        config = EngineConfig(
            scheduler=SchedulerConfig(max_seqs=self.parallel),
            max_seq_tokens=room,
            cache_tokens=self.parallel * (room + 32),
            prefix_reuse=False,
        )
        with contextlib.closing(engine_of(self.spec, self.backend, config, grammars=self.grammars)) as core:
            for i in range(self.parallel):
                core.submit(
                    EngineRequest(
                        self.prompts[i],
                        sampling=SamplingOptions(temperature=self.temperature, seed=i),
                        max_new_tokens=self.tokens,
                        ignore_eos=True,
                        grammar=grammar,
                    )
                )
            steps: list[StepStats] = []
            begin = time.perf_counter()
            while core.has_work:
                core.step()
                stats = core.last_step
                assert stats is not None
                if stats.prefill_tokens == 0 and stats.num_seqs == self.parallel:
                    steps.append(stats)
            seconds = time.perf_counter() - begin
            return Run(seconds, core.stats().generated_tokens, steps)


def measure(bench: Bench, grammars: Mapping[str, Grammar], rounds: int) -> dict[str, list[Run]]:
    """Runs by name, and ``free`` ones: one before each other run, and one after the last."""
    for one in (None, *grammars.values()):
        bench.run(one)  # compiles
    found: dict[str, list[Run]] = {name: [] for name in ("free", *grammars)}
    for _ in range(rounds):
        for name, grammar in grammars.items():
            found["free"].append(bench.run(None))
            found[name].append(bench.run(grammar))
    found["free"].append(bench.run(None))
    return found


def over_neighbours(found: Mapping[str, Sequence[Run]], name: str) -> list[float]:
    """How much longer runs took than the free ones around them, in percent."""
    names = [each for each in found if each != "free"]
    free = found["free"]
    overheads: list[float] = []
    for round_, run in enumerate(found[name]):
        at = round_ * len(names) + names.index(name)
        beside = (free[at].per_token_ms + free[at + 1].per_token_ms) / 2
        overheads.append(100 * (run.per_token_ms / beside - 1))
    return overheads


def show(found: Mapping[str, Sequence[Run]]) -> None:
    print(
        f"{'':8} {'ms a token':>19}   {'over free':>22}   {'plan':>6} {'execute':>7} {'sample':>6} {'settle':>6}  steps"
    )
    for name, runs in found.items():
        times = [run.per_token_ms for run in runs]
        print(f"{name:8} {statistics.median(times):7.4f} ({min(times):.3f}-{max(times):.3f})", end="   ")
        if name == "free":
            print(" " * 22, end="   ")
        else:
            over = over_neighbours(found, name)
            print(
                f"{statistics.median(over):+6.1f} % ({min(over):+.1f} to {max(over):+.1f})".rjust(22),
                end="   ",
            )
        steps = [step for run in runs for step in run.steps]
        for part, width in (("plan_s", 6), ("execute_s", 7), ("sample_s", 6)):
            print(f"{median_ms([getattr(s, part) for s in steps]):{width}.3f}", end=" ")
        rest = [s.total_s - s.plan_s - s.execute_s - s.sample_s for s in steps]
        print(f"{median_ms(rest):6.3f}  {len(runs[0].steps)} for {runs[0].tokens} tokens")


def median_ms(values: Sequence[float]) -> float:
    return statistics.median(values) * 1e3 if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", default="records,bounded,typed,tools")
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
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
        known = cases(tokenizer)
        chosen = {name: known[name] for name in asked.cases.split(",")}
        for name, grammar in chosen.items():
            begin = time.perf_counter()
            grammars.compile(grammar)
            print(f"{name} compiled in {1e3 * (time.perf_counter() - begin):.0f} ms", end="; ")
        prompts = [tokenizer.encode(QUESTION.format(count=i + 10)) for i in range(asked.parallel)]
        bench = Bench(spec, backend, grammars, asked.parallel, asked.tokens, prompts, asked.temperature)
        print(
            f"\n{asked.parallel} in parallel, {asked.tokens} tokens each, {asked.backend}, "
            f"temperature {asked.temperature:g}, {asked.rounds} rounds"
        )
        show(measure(bench, chosen, asked.rounds))
        grammars.close()


if __name__ == "__main__":
    main()
