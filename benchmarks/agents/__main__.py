"""Measure answers held to a JSON schema, and guesses from the prompt, in onnxgen and its peers in turns.

    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS        # once
    python -m benchmarks.agents --environments ENVIRONMENTS --models MODELS --tasks held.1,held.8,lookup --json out.json

Tasks::

    held.1   one request: free, held to a schema, and the same with tokens that must follow written without the model where the
             program can; the first token of each, and of a schema never seen; eight answers that end by themselves, checked
    held.8   eight requests at once
    lookup   a list that is copied, and a story, with and without prompt lookup

onnxruntime-genai guesses only with a model that gives logits of all tokens. It is made beside the other one::

    ENVIRONMENTS/peers-export/bin/python -m onnxruntime_genai.models.builder -i MODELS/smollm2-135m/checkpoint
        -o MODELS/smollm2-135m/og-all-logits -p int4 -e cpu --extra_options int4_accuracy_level=4 int4_block_size=32
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.agents import work
from benchmarks.agents.tasks import TASKS, Lab, Task, measure_step
from benchmarks.measuring import Watch, conditions
from benchmarks.peers.contenders import CONTENDERS as PEERS
from benchmarks.peers.contenders import Contender
from benchmarks.peers.layout import model_path
from benchmarks.peers.rounds import Figures, Setting
from benchmarks.peers.worker import Worker

from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.preprocess.tokenizer import Tokenizer

CONTENDERS = tuple(replace(contender, workers="benchmarks.agents.workers") for contender in PEERS)
_AWAKE_TOKENS = 24  # unmeasured, at the start of a turn: caches and clocks are the last program's
_TRIES = 3
_QUIET_CPUS = 0.15
"""A step beside which other processes took more CPUs is repeated; the quietest try counts."""


def main() -> None:
    """Measure and print."""
    args = _arguments()
    contenders = [contender for contender in CONTENDERS if contender.key in args.only]
    tasks = [task for task in TASKS if task.name in args.tasks]
    setting = Setting(args.environments, args.models, threads=args.threads, rounds=args.rounds, say=_say)
    tokenizer = Tokenizer.from_folder(model_path(args.models, args.model, "onnxgen"))
    lab = Lab(tokenizer, args.new_tokens, args.drafts, args.match)
    figures: dict[str, dict[str, Figures]] = {task.name: {} for task in tasks}
    with ExitStack() as stack:
        workers = {one: setting.load(one, args.model, stack)[0] for one in contenders}
        for number in range(args.rounds + 1):
            first = number % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                for task in tasks:
                    kept = figures[task.name].setdefault(contender.name, Figures())
                    kept.versions = workers[contender].versions
                    _turn(task, contender, workers[contender], lab, kept if number else Figures())
    for name, found in figures.items():
        print(_table(name, [c.name for c in contenders], found))
    for label, said in lab.missing.items():
        print(f"- {label}: {said}")
    if args.json:
        about = conditions(
            ["onnxgen"],
            threads=args.threads,
            rounds=args.rounds,
            new_tokens=args.new_tokens,
            drafts=args.drafts,
            match=args.match,
        )
        values = {task: {n: one.to_json() for n, one in found.items()} for task, found in figures.items()}
        report = {"conditions": about, "tasks": values, "missing": lab.missing}
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _turn(task: Task, contender: Contender, worker: Worker, lab: Lab, kept: Figures) -> None:
    worker.ask("answer", prompts=[work.story(lab.tokenizer.encode)], new_tokens=_AWAKE_TOKENS)
    for name, step in task.steps(lab):
        label = f"{contender.name}, {task.name}, {name}"
        if label in lab.missing:
            continue
        tries = []
        for _ in range(_TRIES):
            with Watch([worker.pid]) as watch:
                found = measure_step(step, worker, lab, label)
            tries.append((watch.foreign_cpus, found))
            if watch.foreign_cpus <= _QUIET_CPUS or label in lab.missing:
                break
        foreign_cpus, found = min(tries, key=lambda one: one[0])
        for metric, value in found:
            kept.add(metric, float(value), round(foreign_cpus, 3))


def _table(task: str, names: Sequence[str], found: Mapping[str, Figures]) -> str:
    metrics = list(dict.fromkeys(metric for name in names for metric in found[name].values))
    lines = [
        f"\n## {task}\n",
        f"|  | {' | '.join(metrics)} | foreign CPUs |",
        "|---" + "|--:" * (len(metrics) + 1) + "|",
    ]
    for name in names:
        medians = found[name].medians
        cells = [f"{medians[metric]:.4g}" if metric in medians else "-" for metric in metrics]
        noise = max((max(values) for values in found[name].foreign_cpus.values()), default=0.0)
        lines.append(f"| {name} | {' | '.join(cells)} | {noise:.2f} |")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [contender.key for contender in CONTENDERS]
    tasks = [task.name for task in TASKS]
    some = {"type": lambda text: text.split(",")}
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("--model", default="smollm2-135m")
    default = [key for key in keys if key != "ort"]
    parser.add_argument("--only", default=default, help=f"some of {', '.join(keys)}", **some)
    parser.add_argument("--tasks", default=tasks, help=f"some of {', '.join(tasks)}", **some)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new-tokens", type=int, default=64, help="length of each answer")
    parser.add_argument("--drafts", type=int, default=8, help="the most tokens that are guessed at once")
    parser.add_argument(
        "--match", type=int, default=2, help="tokens that occurred before, so that one guesses"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every value, and the noise beside it")
    args = parser.parse_args()
    for option, given, known in (("--only", args.only, keys), ("--tasks", args.tasks, tasks)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{option}: there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return args


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
