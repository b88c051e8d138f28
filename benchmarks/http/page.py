"""Figures as a page of tables in markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.http.figures import COLUMNS
from benchmarks.http.overhead import PROCESS, SERVER, THREAD
from benchmarks.measuring import QUIET_LIMIT
from benchmarks.peers.table import model_table

_ABOUT = """\
# Serving over HTTP

What clients of `onnxgen serve` see, and what they see of other programs' servers on the same machine in the same run.
`benchmarks/http` made the tables, and makes them anew on yours ([benchmarking](../guides/benchmarking.md) says how)."""

_COMPARED = """\
## Beside other servers

Streamed chat completions over loopback, greedy, of exactly the length that was asked for; every stream is checked. Prompts have 32 to 512
words that no server has seen, answers 16 to 128 tokens, the same for all. Medians of interleaved rounds. A server may put several
tokens into one piece. CPUs are those of its processes, and of the clients. Ratios of rates above 1, and of times below 1, are in
onnxgen's favour."""

_NOT_OVMS = """\
OpenVINO Model Server is published neither as a Python package nor in Debian. Its place takes a minimal server of ours over OpenVINO
GenAI's continuous batching (`benchmarks/http/workers/openvino.py`), which does nothing but stream greedy answers."""


def document(reports: Sequence[Mapping[str, Any]]) -> str:
    """The page of reports, each of a kind: ``compare``, ``overhead`` or ``soak``."""
    tell = {"compare": _compared, "overhead": _overhead, "soak": _soak}
    parts = [_ABOUT]
    for report in reports:
        parts += tell[report["kind"]](report)
    return "\n\n".join(parts) + "\n"


def conditions_line(report: Mapping[str, Any], noise: float) -> str:
    """Date, machine, threads, and how quiet it was."""
    about = report["conditions"]
    noisy = "" if noise <= QUIET_LIMIT else f", more than the {QUIET_LIMIT} that a fair figure allows"
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}, {about['machine']}, {about['threads']} threads, {versions}. Other processes took up to "
        f"{noise:.2f} CPUs{noisy}."
    )


def _compared(report: Mapping[str, Any]) -> list[str]:
    tasks: Mapping[str, Mapping[str, Any]] = report["tasks"]
    servers = {name: found for task in tasks.values() for name, found in task.items()}
    noises = (
        cpus
        for task in tasks.values()
        for found in task.values()
        for metric in found["metrics"].values()
        for cpus in metric["foreign_cpus"]
    )
    versions = "; ".join(f"{name}: {found['versions']['program']}" for name, found in servers.items())
    rate = report["conditions"]["requests_per_s"]
    together = "sent together" if rate is None else f"sent at random times, {rate:g} a second"
    parts = [_COMPARED, _NOT_OVMS, conditions_line(report, max(noises, default=0.0)), f"{versions}."]
    parts.append(f"Model: {report['conditions']['model']}, int4. Rounds: {report['conditions']['rounds']}.")
    for count, found in tasks.items():
        medians = {
            name: {metric: value["median"] for metric, value in one["metrics"].items()}
            for name, one in found.items()
        }
        measured = {name: one for name, one in medians.items() if one}
        if measured:
            clients = (
                "1 client, one request after the other" if count == "1" else f"{count} requests, {together}"
            )
            table = model_table(measured, {}, ours=report["ours"], peers=report["peers"], columns=COLUMNS)
            parts += [f"### {clients}", table]
    return parts


def _overhead(report: Mapping[str, Any]) -> list[str]:
    found, about = report["found"], report["conditions"]
    rows = [
        "| way | new tok/s | first token p50, ms | between pieces p50, ms | p99, ms | server's time beside it |"
    ]
    rows.append("|---|--:|--:|--:|--:|--:|")
    for name in (THREAD, PROCESS, SERVER):
        one = found["ways"][name]
        more = found["overhead_percent"].get(name)
        beside = "-" if more is None else f"{more['median']:+.1f} %"
        cells = [f"{one[m]:.1f}" for m in ("new_rate", "ttft_p50_ms", "itl_p50_ms", "itl_p99_ms")]
        rows.append(f"| {' | '.join([name, *cells, beside])} |")
    said = (
        f"{about['at_once']} equal requests at once (96 words, 64 new tokens) to `AsyncLLM` and to the server. The client of the server "
        f"runs on the same cores and is counted. Medians of {about['rounds']} interleaved rounds; the last column of ratios within a "
        "round. All ways give the same texts."
    )
    return ["## What HTTP costs", said, conditions_line(report, found["foreign_cpus"]), "\n".join(rows)]


def _soak(report: Mapping[str, Any]) -> list[str]:
    found = report["found"]
    tally, figures = found["tally"], found["figures"]
    samples = found["samples"]
    whole = [sum(sample["rss_mb"]) for sample in samples]
    middle = whole[len(whole) // 2]
    rows = [
        ("clients, seconds", f"{found['clients']}, {found['seconds']:.0f}"),
        ("whole answers", f"{tally['answers']}"),
        ("answers that their client left", f"{tally['left']}"),
        ("wrong answers", f"{tally['wrong']}"),
        ("answers that are others alone afterwards", f"{found['changed_alone']}"),
        ("new tokens, a second", f"{tally['new_tokens']}, {figures['new_rate']:.0f}"),
        ("first token p50, p99", f"{figures['ttft_p50_ms']:.0f} ms, {figures['ttft_p99_ms']:.0f} ms"),
        ("between pieces p50, p99", f"{figures['itl_p50_ms']:.0f} ms, {figures['itl_p99_ms']:.0f} ms"),
        (
            "RSS at the beginning, in the middle, at the end",
            f"{whole[0]:.0f}, {middle:.0f}, {whole[-1]:.0f} MB",
        ),
        ("RSS, slope over the second half", f"{found['growth_mb_per_min']:+.2f} MB a minute"),
    ]
    said = (
        "Clients that stream one answer after the other, no two of the same text: half count on from a number of their own, half tell a "
        "story. An answer is wrong if it differs in one character from what one client alone gets, is not exactly as long as was asked for, "
        "or its stream has not one role, one finish reason, one usage and `[DONE]` in that order."
    )
    table = "\n".join(["| | |", "|---|--:|", *(f"| {name} | {value} |" for name, value in rows)])
    wrong = [f"- {problem}" for problem in tally["problems"][:5]]
    parts = ["## Many clients for minutes", said, conditions_line(report, found["foreign_cpus"]), table]
    return parts + (["\n".join(wrong)] if wrong else [])
