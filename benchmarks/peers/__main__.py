"""Measure onnxgen and its peers in turns, and write the table.

    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS        # once
    python -m benchmarks.peers --environments ENVIRONMENTS --models MODELS --json out.json --write table.md

Run it from the root of the sources, on a machine that does nothing else: 25 minutes for both models on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.measuring import conditions
from benchmarks.peers.bounds import Bounds, Machine, measure_machine
from benchmarks.peers.contenders import CONTENDERS, OURS
from benchmarks.peers.layout import model_path
from benchmarks.peers.metrics import TASKS
from benchmarks.peers.rounds import Figures, Setting, measure_model, most_noise
from benchmarks.peers.setup.__main__ import MODELS
from benchmarks.peers.table import document, model_table

from onnxgen.foundations.cpuinfo import default_threads


def main() -> None:
    """Measure and write."""
    args = _arguments()
    contenders = [contender for contender in CONTENDERS if contender.key in args.only]
    setting = Setting(
        args.environments,
        args.models,
        threads=args.threads,
        rounds=args.rounds,
        new_tokens=args.new_tokens,
        tasks=[task for task in TASKS if task.name in args.tasks],
        say=_say,
    )
    machine = measure_machine(args.threads)
    found: dict[str, dict[str, Figures]] = {}
    try:
        for model in args.model:
            measure_model(model, contenders, setting, found.setdefault(model, {}))
            machine = machine.or_better(measure_machine(args.threads))
    except KeyboardInterrupt:
        _say("interrupted; the table has what was measured until now")
    peers = [contender.name for contender in contenders if contender.is_peer]
    tables = {
        model: model_table(
            {name: one.medians for name, one in figures.items()},
            _bounds(machine, model_path(args.models, model, "onnxgen")),
            ours=OURS,
            peers=peers,
        )
        for model, figures in found.items()
    }
    about = _about(args, machine, found)
    page = document(tables, about, noise=most_noise(found))
    print(page)
    if args.write:
        args.write.write_text(page, encoding="utf-8")
    if args.json:
        report = {
            "conditions": about,
            "unit": "seconds, MB, tokens per second",
            "models": {
                model: {name: one.to_json() for name, one in figures.items()}
                for model, figures in found.items()
            },
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [contender.key for contender in CONTENDERS]
    some = {"type": lambda text: text.split(",")}
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("--model", default=list(MODELS), help=f"some of {', '.join(MODELS)}", **some)
    default = [key for key in keys if key != "ort"]
    parser.add_argument("--only", default=default, help=f"some of {', '.join(keys)}", **some)
    tasks = [task.name for task in TASKS]
    parser.add_argument("--tasks", default=tasks, help=f"some of {', '.join(tasks)}", **some)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new-tokens", type=int, default=64, help="length of each answer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every value, and the noise beside it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page as markdown")
    args = parser.parse_args()
    choices = (("--only", args.only, keys), ("--model", args.model, MODELS), ("--tasks", args.tasks, tasks))
    for option, given, known in choices:
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{option}: there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return args


def _bounds(machine: Machine, folder: Path) -> dict[str, float]:
    """Bounds of all tasks; none where the model is not there in our form."""
    if not folder.exists():
        return {}
    bounds = Bounds(machine, folder)
    return {metric: rate for task in TASKS for metric, rate in task.bound(bounds.rate).items()}


def _about(
    args: argparse.Namespace, machine: Machine, found: dict[str, dict[str, Figures]]
) -> dict[str, Any]:
    versions = {name: dict(one.versions) for figures in found.values() for name, one in figures.items()}
    return conditions(
        ["onnxgen"],
        threads=args.threads,
        rounds=args.rounds,
        new_tokens=args.new_tokens,
        bounds=machine.to_json(),
        versions_of=versions,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
