"""Figures as a page of tables in markdown, one for each task and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measuring import QUIET_LIMIT
from benchmarks.peers.rounds import Figures
from benchmarks.peers.table import model_table
from benchmarks.serving.tasks import Task

_EXPLANATION = """\
Medians of interleaved rounds; every answer is greedy and as long as was asked for. Each contender is stepped by the same loop, which
notes when a token comes; times to first token count from a request's arrival. Steps have at most 512 tokens unless said
otherwise. Ratios of rates above 1, and of times below 1, are in onnxgen's favour."""


def task_table(task: Task, found: Mapping[str, Figures], *, ours: str, peers: Sequence[str]) -> str | None:
    """One task's table of a model; None if nobody was measured in it."""
    columns = {f"{task.name}.{metric}": column for metric, column in task.columns.items()}
    medians = {
        name: {metric: value for metric, value in figures.medians.items() if metric in columns}
        for name, figures in found.items()
    }
    measured = {name: one for name, one in medians.items() if one}
    return model_table(measured, {}, ours=ours, peers=peers, columns=columns) if measured else None


def document(
    found: Mapping[str, Mapping[str, Figures]],
    tasks: Sequence[Task],
    conditions: Mapping[str, Any],
    *,
    ours: str,
    peers: Sequence[str],
    noise: float,
) -> str:
    """The whole page."""
    noisy = (
        "" if noise <= QUIET_LIMIT else f", which is more than the {QUIET_LIMIT} that a fair figure allows"
    )
    versions = "; ".join(
        f"{name}: {', '.join(f'{package} {version}' for package, version in packages.items())}"
        for name, packages in conditions["versions_of"].items()
    )
    facts = [
        f"{conditions['date']}, {conditions['machine']}, {conditions['threads']} threads",
        f"rounds: {conditions['rounds']}",
        f"other processes took up to {noise:.2f} CPUs{noisy}",
        versions,
    ]
    parts = ["# Serving: onnxgen beside other programs", _EXPLANATION, "\n".join(f"- {f}" for f in facts)]
    for model, figures in found.items():
        parts.append(f"## {model}")
        for task in tasks:
            table = task_table(task, figures, ours=ours, peers=peers)
            if table is not None:
                parts += [f"### {task.name}", f"{task.about[0].upper()}{task.about[1:]}.", table]
    return "\n\n".join(parts) + "\n"
