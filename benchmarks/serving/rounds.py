"""Servers in turns, each loaded once for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.peers.contenders import Contender
from benchmarks.peers.rounds import Figures, Setting, able_contenders, measure_in_turns
from benchmarks.peers.worker import Worker
from benchmarks.serving.tasks import Task


def measure_model(
    model: str,
    contenders: Sequence[Contender],
    tasks: Sequence[Task],
    setting: Setting,
    figures: dict[str, Figures],
) -> None:
    """Measure one model in all contenders that can run it; who cannot is named.

    ``figures``, by contender, grow while it runs, so that they are there when it is interrupted. Their metrics begin with
    the name of the task.
    """
    able = able_contenders(model, contenders, setting, figures)
    with ExitStack() as stack:
        workers = {contender.name: setting.load(contender, model, stack)[0] for contender in able}
        for task in tasks:
            those = {
                contender.name: workers[contender.name]
                for contender in able
                if task.forms is None or contender.form in task.forms
            }
            if those:
                _measure_task(task, those, setting, figures)


def _measure_task(
    task: Task, workers: dict[str, Worker], setting: Setting, figures: dict[str, Figures]
) -> None:
    def run(worker: Worker) -> dict[str, float]:
        found = task.run(worker)
        assert found.keys() <= task.columns.keys(), "each figure has a column"
        return {f"{task.name}.{metric}": found[metric] for metric in task.columns if metric in found}

    first = next(iter(task.columns.values()))[0]
    measure_in_turns(
        task.name,
        workers,
        replace(setting, rounds=min(setting.rounds, task.most_rounds)),
        figures,
        try_out=task.try_out,
        run=run,
        unit=f"({first})",
    )
