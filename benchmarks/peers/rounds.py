"""Contenders in turns: loading in fresh processes, then everything else in one process each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import quiet_rounds
from benchmarks.peers.contenders import Contender
from benchmarks.peers.layout import model_path
from benchmarks.peers.metrics import PARALLEL, SINGLE, Task
from benchmarks.peers.worker import Worker, WorkerError


@dataclass
class Figures:
    """Values of one contender by metric, with the CPUs that other processes took beside each."""

    versions: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    foreign_cpus: dict[str, list[float]] = field(default_factory=dict)

    def add(self, metric: str, value: float, foreign_cpus: float) -> None:
        self.values.setdefault(metric, []).append(value)
        self.foreign_cpus.setdefault(metric, []).append(foreign_cpus)

    @property
    def medians(self) -> dict[str, float]:
        return {metric: statistics.median(values) for metric, values in self.values.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "versions": dict(self.versions),
            "metrics": {
                metric: {
                    "median": round(statistics.median(values), 3),
                    "values": [round(value, 3) for value in values],
                    "foreign_cpus": self.foreign_cpus[metric],
                }
                for metric, values in self.values.items()
            },
        }


@dataclass(frozen=True)
class Setting:
    """What all contenders share.

    Attributes:
        environments: Folder of virtual environments.
        models: Folder of models.
        threads: Threads of each.
        rounds: Measured rounds of each task.
        say: Told what goes on.
        new_tokens: Tokens of each answer.
        tasks: What is measured, beside loading.
    """

    environments: Path
    models: Path
    threads: int
    rounds: int
    say: Callable[[str], None]
    new_tokens: int = 64
    tasks: Collection[Task] = ()

    def load(self, contender: Contender, model: str, stack: ExitStack) -> tuple[Worker, dict[str, float]]:
        """A process with the model, and what loading took.

        Raises:
            WorkerError: It does not load.
        """
        worker = stack.enter_context(contender.start(self.environments))
        path = model_path(self.models, model, contender.form).resolve()
        return worker, worker.ask("load", model=str(path), threads=self.threads)


def measure_model(
    model: str, contenders: Sequence[Contender], setting: Setting, figures: dict[str, Figures]
) -> None:
    """Measure one model in all contenders that can run it; who cannot is named.

    ``figures``, by contender, grow while it runs, so that they are there when it is interrupted.
    """
    able = able_contenders(model, contenders, setting, figures)
    if not able:
        return
    _measure_loading(model, able, setting, figures)
    with ExitStack() as stack:
        workers = {contender.name: setting.load(contender, model, stack)[0] for contender in able}
        for task in (task for task in SINGLE if task in setting.tasks):
            _measure_task(task, workers, setting, figures)
        for name, worker in workers.items():
            _add_known(figures[name], {"rss_peak_mb": worker.ask("memory")["peak_mb"]}, 0.0)
        for task in (task for task in PARALLEL if task in setting.tasks):
            _measure_task(task, workers, setting, figures)


def able_contenders(
    model: str, contenders: Sequence[Contender], setting: Setting, figures: dict[str, Figures]
) -> list[Contender]:
    """Those that load the model, each with new figures. Its files are in the page cache then, and what is compiled once is compiled."""
    able: list[Contender] = []
    for contender in contenders:
        lacking = contender.lacks(setting.environments, setting.models, model)
        if lacking is None:
            try:
                with ExitStack() as stack:
                    worker, _ = setting.load(contender, model, stack)
                    figures[contender.name] = Figures(worker.versions)
                able.append(contender)
            except WorkerError as error:
                lacking = f"it does not load {model}: {error}"
        if lacking is not None:
            setting.say(f"{contender.name} is left out: {lacking}")
    return able


def _measure_loading(
    model: str, contenders: Sequence[Contender], setting: Setting, figures: Mapping[str, Figures]
) -> None:
    def loading(contender: Contender) -> dict[str, float]:
        with ExitStack() as stack:
            return setting.load(contender, model, stack)[1]

    runs = {contender.name: lambda c=contender: loading(c) for contender in contenders}
    for attempt in quiet_rounds(runs, rounds=setting.rounds):
        for name, turn in attempt.items():
            found = {"load_s": turn.value["load_s"], "rss_load_mb": turn.value["rss_mb"]}
            _add_known(figures[name], found, turn.foreign_cpus)
    setting.say(f"{model}: loading")


def _add_known(figures: Figures, found: Mapping[str, float | None], foreign_cpus: float) -> None:
    for metric, value in found.items():
        if value is not None:
            figures.add(metric, value, foreign_cpus)


def _measure_task(
    task: Task, workers: Mapping[str, Worker], setting: Setting, figures: Mapping[str, Figures]
) -> None:
    measure_in_turns(
        f"{task.kind} {task.size}",
        workers,
        setting,
        figures,
        try_out=lambda worker: task.run(worker, 2),
        run=lambda worker: task.run(worker, setting.new_tokens),
    )


def measure_in_turns(
    label: str,
    workers: Mapping[str, Worker],
    setting: Setting,
    figures: Mapping[str, Figures],
    *,
    try_out: Callable[[Worker], object],
    run: Callable[[Worker], Mapping[str, float]],
    unit: str = "tok/s",
) -> None:
    """Rounds of one task, after an unmeasured turn; who fails in that sits out.

    Args:
        label: What the task is called.
        workers: By contender.
        setting: What they share.
        figures: By contender; what is found is added.
        try_out: The unmeasured turn, which may be short.
        run: The measured one; its first figure is told as soon as it is there.
        unit: Of that figure.
    """
    runs: dict[str, Callable[[], Mapping[str, float]]] = {}
    for name, worker in workers.items():
        try:
            try_out(worker)
        except WorkerError as error:
            setting.say(f"{name} sits out {label}: {error}")
        else:
            runs[name] = lambda w=worker: run(w)
    if not runs:
        return
    pids = [worker.pid for worker in workers.values()]
    kept = quiet_rounds(runs, rounds=setting.rounds, pids=pids)
    for attempt in kept:
        for name, turn in attempt.items():
            for metric, value in turn.value.items():
                figures[name].add(metric, value, turn.foreign_cpus)
    noise = max(turn.foreign_cpus for attempt in kept for turn in attempt.values())
    found = ", ".join(
        f"{name} {statistics.median(next(iter(a[name].value.values())) for a in kept):.0f}" for name in runs
    )
    setting.say(f"{label}: {found} {unit} (others took up to {noise:.2f} CPUs)")


def most_noise(found: Mapping[str, Mapping[str, Figures]]) -> float:
    """The most CPUs that other processes took beside any figure, of figures by model and contender."""
    all_figures = [one for figures in found.values() for one in figures.values()]
    return max(
        (cpus for one in all_figures for some in one.foreign_cpus.values() for cpus in some), default=0.0
    )
