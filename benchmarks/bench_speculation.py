"""What guessing tokens from the text itself brings, and what it costs where there is nothing to guess.

    python benchmarks/bench_speculation.py FOLDER [--backend native] [--rounds 3] [--tokens 320] [--equal 50] [--fixed]

Two engines on one loaded model answer the same requests, one with prompt lookup and one without. They take turns, step by
step, so that both see the same machine; the tokens must be the same. Tasks::

    edit        a class is written again with names changed: the answer is prescribed (`SamplingOptions.forced_tokens`), so
                that it is an edit whatever the model can do; verification costs what it costs with any answer
    own answer  the model's greedy answer to the request for that edit
    free text   a story, drawn at temperature 0.9
    free batch  sixteen of these at once

Then ``--equal`` prompts of many kinds are answered with and without, greedy and drawn, alone and eight at a time, and must get
equal tokens. Prints medians over rounds, and what steps take by their number of rows.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from measuring import Watch

from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.options import Speculation
from onnxgen.engine.speculation.stats import MethodStats
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.tokenizer import Tokenizer

CODE = '''\
class Basket:
    """Holds items of a customer until they are paid."""

    def __init__(self, owner, limit=20):
        self.owner = owner
        self.limit = limit
        self.items = []
        self.total = 0

    def add(self, item, price, count=1):
        if len(self.items) + count > self.limit:
            raise ValueError("the basket of " + self.owner + " is full")
        for _ in range(count):
            self.items.append((item, price))
        self.total += price * count

    def remove(self, item):
        for entry in self.items:
            if entry[0] == item:
                self.items.remove(entry)
                self.total -= entry[1]
                return True
        return False

    def clear(self):
        self.items = []
        self.total = 0

    def summary(self):
        lines = ["Basket of " + self.owner]
        for item, price in self.items:
            lines.append("- " + item + ": " + str(price))
        lines.append("Total: " + str(self.total))
        return "\\n".join(lines)
'''
RENAMED = (("Basket", "Cart"), ("basket", "cart"), ("owner", "buyer"), ("price", "cost"))
TEXT = (
    "The old harbour of the town lies between two hills. In the morning the fishermen bring their boats to the shore and "
    "sell what they have caught. Children run along the pier and count the boats. At noon the bells ring twelve times, "
    "and the market closes for two hours. When the sun goes down, the keeper climbs the stairs and lights the lamp."
)
QUESTIONS = (
    "Tell me a story about {}.",
    "Write a short Python function about {}.",
    "List ten facts about {}, numbered.",
    "Summarize this text for somebody who likes {}:\n\n" + TEXT,
    "Repeat this text, and add a sentence about {}:\n\n" + TEXT,
)
SUBJECTS = (
    "lighthouses",
    "bread",
    "the moon",
    "queues",
    "old trains",
    "rivers",
    "chess",
    "bees",
    "maps",
    "winter",
)


@dataclass
class Run:
    """What one engine did."""

    seconds: float = 0.0
    answers: dict[int, list[int]] = field(default_factory=dict)
    by_rows: dict[int, list[tuple[float, float, float]]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class Bench:
    """A loaded model."""

    spec: ModelSpec
    backend: Backend
    tokenizer: Tokenizer

    def chat(self, text: str) -> list[int]:
        return self.tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")

    @contextlib.contextmanager
    def engine(self) -> Iterator[EngineCore]:
        config = EngineConfig(max_seq_tokens=1024, cache_tokens=20 * 1024, prefix_reuse=False)
        core = engine_of(self.spec, self.backend, config)
        try:
            yield core
        finally:
            core.close()

    def duel(
        self, requests: Sequence[EngineRequest], speculation: Speculation
    ) -> tuple[Run, Run, MethodStats]:
        """The same requests without and with drafts, step by step in turns."""
        runs = Run(), Run()
        with self.engine() as plain, self.engine() as guessing:
            for request in requests:
                plain.submit(replace(request, speculation=Speculation("off")))
                guessing.submit(replace(request, speculation=speculation))
            while plain.has_work or guessing.has_work:
                for core, run in zip((plain, guessing), runs, strict=True):
                    if core.has_work:
                        _step(core, run)
            return *runs, guessing.stats().speculation.total

    def answers(self, requests: Sequence[EngineRequest], *, at_once: int) -> list[list[int]]:
        """Tokens of each request, so many of them at a time."""
        found: list[list[int]] = []
        with self.engine() as core:
            for start in range(0, len(requests), at_once):
                run = Run()
                numbers = [core.submit(request) for request in requests[start : start + at_once]]
                while core.has_work:
                    _step(core, run)
                found += [run.answers[number] for number in numbers]
        return found


def _step(core: EngineCore, run: Run) -> None:
    started = time.perf_counter()
    events = core.step()
    seconds = time.perf_counter() - started
    for event in events:
        if event.token_id is not None and not event.is_eos:
            run.answers.setdefault(event.request_id, []).append(event.token_id)
    step = core.last_step
    if step is not None and not step.prefill_tokens:
        run.seconds += seconds
        run.by_rows[step.decode_tokens + step.draft_tokens].append((seconds, step.execute_s, step.sample_s))


def tasks(bench: Bench, tokens: int) -> dict[str, list[EngineRequest]]:
    edited = CODE
    for old, new in RENAMED:
        edited = edited.replace(old, new)
    wish = bench.chat(
        f"Here is a class:\n```python\n{CODE}```\nRename `Basket` to `Cart`, and write the whole code."
    )
    prescribed = bench.tokenizer.encode(edited)[:tokens]
    forced = SamplingOptions(temperature=0, forced_tokens=tuple(enumerate(prescribed)))
    stories = [
        EngineRequest(
            bench.chat(QUESTIONS[0].format(f"{SUBJECTS[i % 10]} and {SUBJECTS[i // 2]}")),
            sampling=SamplingOptions(temperature=0.9, seed=i),
            max_new_tokens=tokens,
            ignore_eos=True,
        )
        for i in range(16)
    ]
    return {
        "edit": [EngineRequest(wish, sampling=forced, max_new_tokens=len(prescribed), ignore_eos=True)],
        "own answer": [EngineRequest(wish, max_new_tokens=tokens, ignore_eos=True)],
        "free text": stories[:1],
        "free batch": [replace(story, max_new_tokens=max(tokens // 4, 1)) for story in stories],
    }


def measure(
    bench: Bench, chosen: Mapping[str, Sequence[EngineRequest]], *, rounds: int, speculation: Speculation
) -> None:
    print(
        f"{'':12}{'tokens':>8}{'ms/token':>10}{'with':>8}{'times as fast':>15}{'accepted':>18}{'drafting':>10}"
    )
    by_rows: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for name, requests in chosen.items():
        ratios, without, with_drafts, load = [], [], [], []
        for _ in range(rounds):
            with Watch() as watch:
                plain, guessing, stats = bench.duel(requests, speculation)
            assert plain.answers == guessing.answers, f"{name}: other tokens with drafts"
            count = sum(map(len, plain.answers.values()))
            ratios.append(plain.seconds / guessing.seconds)
            without.append(1e3 * plain.seconds / count)
            with_drafts.append(1e3 * guessing.seconds / count)
            load.append(watch.foreign_cpus)
            for run in (plain, guessing):
                for rows, steps in run.by_rows.items():
                    by_rows[rows] += steps
        print(
            f"{name:12}{count:8}{statistics.median(without):10.2f}{statistics.median(with_drafts):8.2f}"
            f"{statistics.median(ratios):9.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            f"{stats.accepted_tokens:7} of {stats.verified_tokens:5}{100 * stats.draft_s / guessing.seconds:8.1f} %"
            f"   beside {statistics.median(load):.1f} foreign CPUs"
        )
    print("\nsteps by rows: median ms of the whole, in the backend, choosing; the least in the backend")
    for rows, steps in sorted(by_rows.items()):
        if len(steps) >= 5:
            whole, backend, choosing = (
                1e3 * statistics.median(column) for column in zip(*steps, strict=True)
            )
            least = 1e3 * min(step[1] for step in steps)
            print(
                f"{rows:4} rows {whole:8.2f} {backend:8.2f} {choosing:8.2f} {least:8.2f}   {len(steps)} steps"
            )


def compare(bench: Bench, *, count: int, tokens: int, speculation: Speculation) -> None:
    """Equal tokens over many prompts."""
    prompts = [
        bench.chat(QUESTIONS[i % len(QUESTIONS)].format(SUBJECTS[i // len(QUESTIONS) % 10]))
        for i in range(count)
    ]
    for kind, sampling in (
        ("greedy", SamplingOptions(temperature=0)),
        ("drawn", SamplingOptions(temperature=0.8)),
    ):
        requests = [
            EngineRequest(prompt, sampling=replace(sampling, seed=i), max_new_tokens=tokens)
            for i, prompt in enumerate(prompts)
        ]
        plain = bench.answers([replace(r, speculation=Speculation("off")) for r in requests], at_once=8)
        for at_once in (1, 8):
            found = bench.answers([replace(r, speculation=speculation) for r in requests], at_once=at_once)
            same = sum(ours == theirs for ours, theirs in zip(found, plain, strict=True))
            print(f"{kind}, {at_once} at a time: {same} of {count} prompts have equal tokens")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="native")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=320)
    parser.add_argument("--equal", type=int, default=50)
    parser.add_argument("--equal-tokens", type=int, default=64)
    parser.add_argument("--max-draft", type=int, default=8)
    parser.add_argument(
        "--fixed", action="store_true", help="drafts as long as they can be, whether that pays or not"
    )
    parser.add_argument("--tasks", nargs="*", help="only these")
    arguments = parser.parse_args()
    spec = load_model_spec(arguments.folder)
    backend = load_backend(spec.decoder, RuntimeConfig(backend=arguments.backend, threads=arguments.threads))
    tokenizer = Tokenizer.from_folder(arguments.folder, model_vocab_size=spec.vocab_size)
    bench = Bench(spec, backend, tokenizer)
    speculation = Speculation(
        "prompt_lookup", max_draft_tokens=arguments.max_draft, adaptive=not arguments.fixed
    )
    try:
        if arguments.rounds:
            chosen = tasks(bench, arguments.tokens)
            chosen = {name: chosen[name] for name in arguments.tasks or chosen}
            measure(bench, chosen, rounds=arguments.rounds, speculation=speculation)
        if arguments.equal:
            compare(bench, count=arguments.equal, tokens=arguments.equal_tokens, speculation=speculation)
    finally:
        backend.close()


if __name__ == "__main__":
    main()
