"""What HTTP costs: the same requests to onnxgen's server and to its engine without one, in turns."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.http.answers import Answer
from benchmarks.http.contenders import Contender, Places
from benchmarks.http.figures import figures_of, require_right
from benchmarks.http.load import Target, ask_all, run_clients
from benchmarks.http.work import Question, steady
from benchmarks.measuring import Turn, quiet_rounds
from benchmarks.peers.layout import model_path
from benchmarks.peers.worker import Worker

SERVER = "server, over HTTP"
THREAD = "AsyncLLM, engine in a thread"
PROCESS = "AsyncLLM, engine in its own process"


def measure_overhead(
    model: str,
    ours: Contender,
    places: Places,
    *,
    at_once: int,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Figures of each way, and by how much longer the server takes, in percent of the time of each other way.

    The ratios are medians of those of each round, in which all three were asked the same shortly after one another. All
    ways must give the same text.
    """
    with ExitStack() as stack:
        server, target = ours.run(places, model)
        stack.enter_context(server)
        workers = {name: _worker(name, model, ours, places, stack) for name in (THREAD, PROCESS)}
        texts: dict[int, list[str]] = {}
        turns = dict.fromkeys((SERVER, *workers), 0)

        def turn(name: str) -> dict[str, float]:
            turns[name] += 1
            questions = steady(at_once, seed=turns[name])
            worker = workers.get(name)
            answers = _over_http(target, questions) if worker is None else _without(worker, questions)
            said = [answer.text for answer in answers]
            assert texts.setdefault(turns[name], said) == said, f"{name} answers otherwise"
            return figures_of(answers)

        runs = {name: lambda n=name: turn(n) for name in turns}
        for run in runs.values():
            run()  # unmeasured
        # engines in processes of their own are children of these
        pids = [pid for root in (server.pids, *map(_tree, workers.values())) for pid in root]
        kept = quiet_rounds(runs, rounds=rounds, pids=pids)
    found = _summary(kept)
    for name in (THREAD, PROCESS):
        say(f"over {name}: {found['overhead_percent'][name]['median']:+.1f} %")
    return found


def _tree(worker: Worker) -> list[int]:
    from benchmarks.http.processes import process_tree

    return process_tree(worker.pid)


def _worker(name: str, model: str, ours: Contender, places: Places, stack: ExitStack) -> Worker:
    way = "thread" if name == THREAD else "process"
    worker = stack.enter_context(Worker([Path(sys.executable), "-m", "benchmarks.http.workers.facade", way]))
    path = model_path(places.models, model, ours.form).resolve()
    worker.ask("load", model=str(path), threads=places.threads)
    return worker


def _over_http(target: Target, questions: Sequence[Question]) -> list[Answer]:
    answers = run_clients(ask_all(target, questions))
    require_right(answers, [question.new_tokens for question in questions])
    return answers


def _without(worker: Worker, questions: Sequence[Question]) -> list[Answer]:
    found = worker.ask(
        "ask",
        conversations=[question.prompt for question in questions],
        new_tokens=[question.new_tokens for question in questions],
    )
    return [Answer(**answer) for answer in found["answers"]]


def _summary(kept: Sequence[dict[str, Turn[dict[str, float]]]]) -> dict[str, Any]:
    ways = {
        name: {
            metric: statistics.median(attempt[name].value[metric] for attempt in kept)
            for metric in kept[0][name].value
        }
        for name in (SERVER, THREAD, PROCESS)
    }
    overhead: dict[str, Any] = {}
    for name in (THREAD, PROCESS):
        percents = [
            100 * (attempt[name].value["new_rate"] / attempt[SERVER].value["new_rate"] - 1)
            for attempt in kept
        ]
        overhead[name] = {
            "median": statistics.median(percents),
            "values": [round(percent, 2) for percent in percents],
        }
    noise = max(turn.foreign_cpus for attempt in kept for turn in attempt.values())
    return {"ways": ways, "overhead_percent": overhead, "foreign_cpus": noise}
