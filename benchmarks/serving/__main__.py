"""Measure servers in turns, and write a page of tables.

    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS        # once
    python -m benchmarks.serving --environments ENVIRONMENTS --models MODELS --json out.json --write page.md
    python -m benchmarks.serving --environments ENVIRONMENTS --models MODELS --model smollm2-135m --tasks parallel

Run it from the root of the sources, on a machine that does nothing else: twelve minutes for both models on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.measuring import conditions
from benchmarks.peers.contenders import OURS
from benchmarks.peers.rounds import Figures, Setting, most_noise
from benchmarks.peers.setup.__main__ import MODELS
from benchmarks.serving.contenders import CONTENDERS
from benchmarks.serving.page import document
from benchmarks.serving.rounds import measure_model
from benchmarks.serving.tasks import Task, all_tasks

from onnxgen.foundations.cpuinfo import default_threads

# what is measured of larger models unless more is asked for: everything takes three times as long there
_LARGE = ("parallel.8", "parallel.16", "overhead.16")


def main() -> None:
    """Measure and write."""
    args = _arguments()
    contenders = [contender for contender in CONTENDERS if contender.key in args.only]
    setting = Setting(args.environments, args.models, threads=args.threads, rounds=args.rounds, say=_say)
    tasks = all_tasks(args.rate)
    found: dict[str, dict[str, Figures]] = {}
    try:
        for model in args.model:
            chosen = [task for task in tasks if is_chosen(task, args.tasks, model)]
            measure_model(model, contenders, chosen, setting, found.setdefault(model, {}))
    except KeyboardInterrupt:
        _say("interrupted; the page has what was measured until now")
    about = _about(args, found)
    peers = [contender.name for contender in contenders if contender.is_peer]
    page = document(found, tasks, about, ours=OURS, peers=peers, noise=most_noise(found))
    print(page)
    if args.write:
        args.write.write_text(page, encoding="utf-8")
    if args.json:
        models = {
            model: {name: one.to_json() for name, one in figures.items()} for model, figures in found.items()
        }
        report = {"conditions": about, "tasks": {task.name: task.about for task in tasks}, "models": models}
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [contender.key for contender in CONTENDERS]
    default = [key for key in keys if key != "ort"]
    tasks = [task.name for task in all_tasks()]
    kinds = list(dict.fromkeys(name.split(".")[0] for name in tasks))
    some = {"type": lambda text: text.split(",")}
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("--model", default=list(MODELS), help=f"some of {', '.join(MODELS)}", **some)
    parser.add_argument("--only", default=default, help=f"some of {', '.join(keys)}", **some)
    parser.add_argument(
        "--tasks",
        help=f"some of {', '.join(tasks)}, or kinds: {', '.join(kinds)}. Without it: all of {MODELS[0]}, and of others "
        f"{', '.join(_LARGE)}",
        **some,
    )
    parser.add_argument(
        "--rate", type=float, metavar="R", help="mixed requests come at random, R a second, not all at once"
    )
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="every value, and the noise beside it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page as markdown")
    args = parser.parse_args()
    choices = (
        ("--only", args.only, keys),
        ("--model", args.model, MODELS),
        ("--tasks", args.tasks or (), [*tasks, *kinds]),
    )
    for option, given, known in choices:
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(
                f"{option}: there is no {', '.join(unknown)}; there are {', '.join(dict.fromkeys(known))}"
            )
    if args.rate is not None and args.rate <= 0:
        parser.error(f"--rate: requests a second must be more than 0, got {args.rate:g}")
    return args


def is_chosen(task: Task, wanted: list[str] | None, model: str) -> bool:
    """Whether a task is measured of a model, given the names and kinds that were asked for."""
    if wanted is None:
        return model == MODELS[0] or task.name in _LARGE
    return task.name in wanted or task.name.split(".")[0] in wanted


def _about(args: argparse.Namespace, found: dict[str, dict[str, Figures]]) -> dict[str, Any]:
    versions = {name: dict(one.versions) for figures in found.values() for name, one in figures.items()}
    return conditions(
        ["onnxgen"],
        threads=args.threads,
        rounds=args.rounds,
        requests_per_s=args.rate,
        versions_of=versions,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
