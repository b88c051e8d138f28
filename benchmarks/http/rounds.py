"""Servers in turns: all of them loaded, each asked the same while the others rest."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.http.contenders import Contender, Places
from benchmarks.http.figures import WrongAnswersError, figures_of, require_right
from benchmarks.http.load import Target, ask_all, run_clients
from benchmarks.http.processes import ServerError, ServerProcess, cpu_seconds, rss_mb
from benchmarks.http.work import Question, mixed, steady
from benchmarks.measuring import quiet_rounds
from benchmarks.peers.rounds import Figures

Say = Callable[[str], None]

LEAST_REQUESTS = 4
"""A turn of fewer requests says little."""


@dataclass
class Running:
    """A server, and how often it was asked: its n-th turn asks what the n-th turn of all others asks."""

    process: ServerProcess
    target: Target
    turns: int = field(default=0)


def measure_servers(
    model: str,
    contenders: Sequence[Contender],
    places: Places,
    *,
    at_once: Sequence[int],
    rounds: int,
    requests_per_s: float | None,
    figures: dict[str, dict[str, Figures]],
    say: Say,
) -> None:
    """Measure a model in all servers that can run it; who cannot is named.

    Args:
        model: Which one.
        contenders: Whose servers.
        places: Where they and the model are.
        at_once: How many clients ask at once, a task for each.
        rounds: Measured rounds of each task.
        requests_per_s: Requests come at random times, so many a second, instead of together.
        figures: By task and contender; they grow while it runs, so that they are there when it is interrupted.
        say: Told what goes on.
    """
    with ExitStack() as stack:
        running = _started(model, contenders, places, stack, say)
        versions = {
            c.name: {"program": c.version(places.environments)} for c in contenders if c.name in running
        }
        for count in at_once:
            found = figures.setdefault(str(count), {})
            for name in running:
                found[name] = Figures(versions[name])
            _measure(count, running, rounds, requests_per_s, found, say)


def _started(
    model: str, contenders: Sequence[Contender], places: Places, stack: ExitStack, say: Say
) -> dict[str, Running]:
    running: dict[str, Running] = {}
    for contender in contenders:
        lacking = contender.lacks(places, model)
        if lacking is None:
            try:
                process, target = contender.run(places, model)
                running[contender.name] = Running(stack.enter_context(process), target)
                say(f"{contender.name}: started in {process.start_s:.1f} s, {rss_mb(process.pids):.0f} MB")
            except ServerError as error:
                lacking = str(error)
        if lacking is not None:
            say(f"{contender.name} is left out: {lacking}")
    return running


def _measure(
    count: int,
    running: Mapping[str, Running],
    rounds: int,
    requests_per_s: float | None,
    figures: Mapping[str, Figures],
    say: Say,
) -> None:
    able: dict[str, Callable[[], dict[str, float]]] = {}
    for name, server in running.items():
        server.turns = 1000 * count  # no task's prompts are another's
        try:
            ask_once(server, steady(count, seed=server.turns, new_tokens=8), count)  # unmeasured
            able[name] = lambda s=server: ask_once(s, requests_of(s, count, requests_per_s), count)
        except WrongAnswersError as error:
            say(f"{name} sits out {count} at once: {error}")
    if not able:
        return
    pids = [pid for server in running.values() for pid in server.process.pids]
    kept = quiet_rounds(able, rounds=rounds, pids=pids)
    for attempt in kept:
        for name, turn in attempt.items():
            for metric, value in turn.value.items():
                figures[name].add(metric, value, turn.foreign_cpus)
    noise = max(turn.foreign_cpus for attempt in kept for turn in attempt.values())
    rates = {name: statistics.median(a[name].value["new_rate"] for a in kept) for name in able}
    told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
    say(f"{count} at once: {told} new tok/s (others took up to {noise:.2f} CPUs)")


def requests_of(server: Running, count: int, requests_per_s: float | None) -> list[Question]:
    """What a server is asked in its next turn: by so many clients, by fewer than four one after the other."""
    server.turns += 1
    return mixed(max(count, LEAST_REQUESTS), seed=server.turns, requests_per_s=requests_per_s)


def ask_once(server: Running, questions: Sequence[Question], clients: int) -> dict[str, float]:
    """Figures of one turn, of so many clients.

    Raises:
        WrongAnswersError: An answer is not what was asked for.
    """
    pids = server.process.pids
    began, server_cpu, client_cpu = time.perf_counter(), cpu_seconds(pids), time.process_time()
    answers = run_clients(ask_all(server.target, questions, at_once=clients))
    wall = time.perf_counter() - began
    taken = {
        "server_cpus": (cpu_seconds(pids) - server_cpu) / wall,
        "client_percent": 100 * (time.process_time() - client_cpu) / wall,
        "rss_mb": rss_mb(server.process.pids),
    }
    require_right(answers, [question.new_tokens for question in questions])
    return {**figures_of(answers), **taken}
