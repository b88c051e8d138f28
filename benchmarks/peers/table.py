"""Figures as a table in markdown: contenders, ratios to the best peer, shares of the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measuring import QUIET_LIMIT
from benchmarks.peers.metrics import COLUMNS

Medians = Mapping[str, float]
Columns = Mapping[str, tuple[str, bool]]

_EXPLANATION = """\
Tokens per second, medians of interleaved rounds, greedy. Ratios of rates above 1, and of seconds and megabytes below 1,
are in onnxgen's favour. Streams are sequences that run at once, each with a prompt of 128 tokens; end to end counts their
prompts' time too. The bound takes the weights once from memory, the matrices at the peak of byte arithmetic and a prompt's
attention at that of float32; caches are not counted."""


def model_table(
    medians: Mapping[str, Medians],
    bounds: Medians,
    *,
    ours: str,
    peers: Sequence[str],
    columns: Columns = COLUMNS,
) -> str:
    """One model's table. The best peer of each column is bold; a figure that was not measured is a dash.

    Args:
        medians: Figures by contender and metric.
        bounds: The best possible rates by metric.
        ours: Whose ratios and shares are shown.
        peers: The contenders that ours is compared with.
        columns: Metrics in their order, with headings, and True where less is better.
    """
    metrics = [metric for metric in columns if any(metric in found for found in medians.values())]
    best = {metric: _best(metric, medians, peers, columns) for metric in metrics}
    rows = [["", *(columns[metric][0] for metric in metrics)], ["---", *["--:"] * len(metrics)]]
    for name, found in medians.items():
        cells = [_cell(metric, found.get(metric), is_best=name == best[metric]) for metric in metrics]
        rows.append([name, *cells])
    if ours in medians and any(best.values()):
        rows.append([f"{ours} / best peer", *(_ratio(m, medians, ours, best[m]) for m in metrics)])
    if bounds:
        rows.append(["bound", *(_cell(metric, bounds.get(metric)) for metric in metrics)])
        if ours in medians:
            rows.append([f"{ours}, share of the bound", *(_share(m, medians[ours], bounds) for m in metrics)])
        if any(best.values()):
            rows.append(
                ["best peer, share of the bound"]
                + [_share(m, medians[best[m] or ""], bounds) if best[m] else "-" for m in metrics]
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def document(tables: Mapping[str, str], conditions: Mapping[str, Any], *, noise: float) -> str:
    """The whole page."""
    machine = conditions["bounds"]
    noisy = (
        "" if noise <= QUIET_LIMIT else f", which is more than the {QUIET_LIMIT} that a fair figure allows"
    )
    versions = "; ".join(
        f"{name}: {', '.join(f'{package} {version}' for package, version in found.items())}"
        for name, found in conditions["versions_of"].items()
    )
    facts = [
        f"{conditions['date']}, {conditions['machine']}, {conditions['threads']} threads",
        f"rounds: {conditions['rounds']}; new tokens: {conditions['new_tokens']}",
        f"other processes took up to {noise:.2f} CPUs{noisy}",
        f"memory {machine['bytes_per_s'] / 1e9:.1f} GB/s",
        f"arithmetic of bytes {machine['byte_operations_per_s'] / 1e9:.0f} G operations/s",
        f"arithmetic of float32 {machine['float_operations_per_s'] / 1e9:.0f} G operations/s",
        versions,
    ]
    parts = ["# onnxgen beside other programs", _EXPLANATION, "\n".join(f"- {fact}" for fact in facts)]
    for model, table in tables.items():
        parts += [f"## {model}", table]
    return "\n\n".join(parts) + "\n"


def _best(metric: str, medians: Mapping[str, Medians], peers: Sequence[str], columns: Columns) -> str | None:
    measured = [name for name in peers if metric in medians.get(name, {})]
    choose = min if columns[metric][1] else max
    return choose(measured, key=lambda name: medians[name][metric]) if measured else None


def _cell(metric: str, value: float | None, *, is_best: bool = False) -> str:
    if value is None:
        return "-"
    text = f"{value:.2f}" if metric.endswith("_s") else f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    return f"**{text}**" if is_best else text


def _ratio(metric: str, medians: Mapping[str, Medians], ours: str, best: str | None) -> str:
    if best is None or metric not in medians[ours]:
        return "-"
    return f"{medians[ours][metric] / medians[best][metric]:.2f}"


def _share(metric: str, found: Medians, bounds: Medians) -> str:
    return f"{found[metric] / bounds[metric]:.0%}" if metric in found and metric in bounds else "-"
