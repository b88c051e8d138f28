"""Plays a scenario on a server, step by step, and notes when each token came. The same loop for every program."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.workers.serving import serve
from benchmarks.serving.scenario import Request, Scenario, Setup
from benchmarks.serving.timeline import Answer, StepTimes, Timeline


class Server(Protocol):
    """Answers requests in steps. Choices are greedy, and an end-of-text token does not end an answer."""

    @property
    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        ...

    def submit(self, number: int, prompt: Sequence[int], new_tokens: int) -> None:
        """Begin to answer; costs no more than a queue's entry."""
        ...

    def step(self) -> Sequence[tuple[int, int]]:
        """Do one step; the new tokens, each with the number of its request."""
        ...

    def cached_tokens(self, number: int) -> int | None:
        """Prompt tokens of a finished request that were not computed; None: the program does not say."""
        ...

    def parts(self) -> Mapping[str, float]:
        """Seconds of the last step by part, as far as they are known."""
        ...


class Program(Protocol):
    """A loaded model in one program."""

    def open(self, setup: Setup) -> Server:
        """A server with an empty cache; the last one is not used any more."""
        ...


def play(
    server: Server,
    scenario: Scenario,
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Timeline:
    """Send each request when it is due, and step until all are answered.

    Raises:
        RuntimeError: An answer is too short, or a request waits for what never comes.
    """
    requests = scenario.requests
    answers = [Answer() for _ in requests]
    steps: list[StepTimes] = []
    waiting = list(range(len(requests)))
    num_steps, started = 0, clock()
    while waiting or server.has_work:
        now = clock() - started
        for number in [n for n in waiting if _is_due(requests[n], requests, answers, now)]:
            waiting.remove(number)
            request, answer = requests[number], answers[number]
            prompt = _whole_prompt(number, requests, answers)
            timed = request.after is None and request.continues is None
            answer.arrived_s = request.at_s if timed else clock() - started
            answer.arrived_step, answer.prompt_tokens = num_steps, len(prompt)
            server.submit(number, prompt, request.new_tokens)
        if not server.has_work:
            sleep(_until_next(waiting, requests, clock() - started))
            continue
        begun = clock()
        tokens = server.step()
        ended = clock()
        for number, token in tokens:
            answer = answers[number]
            answer.tokens.append(token)
            answer.token_s.append(ended - started)
            answer.token_step.append(num_steps)
        if scenario.setup.parts:
            steps.append(StepTimes(ended - begun, len(tokens), server.parts()))
        num_steps += 1
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if len(answer.tokens) != request.new_tokens:
            raise RuntimeError(f"request {number} got {len(answer.tokens)} tokens of {request.new_tokens}")
        answer.cached_tokens = server.cached_tokens(number)
    return Timeline(answers, steps)


def _is_due(request: Request, requests: Sequence[Request], answers: Sequence[Answer], now: float) -> bool:
    if request.continues is not None:
        return len(answers[request.continues].tokens) == requests[request.continues].new_tokens
    if request.after is not None:
        number, tokens = request.after
        return len(answers[number].tokens) >= tokens
    return request.at_s <= now


def _whole_prompt(number: int, requests: Sequence[Request], answers: Sequence[Answer]) -> list[int]:
    """What a request continues, and its own prompt."""
    request = requests[number]
    if request.continues is None:
        return list(request.prompt)
    before = request.continues
    return [*_whole_prompt(before, requests, answers), *answers[before].tokens, *request.prompt]


def _until_next(waiting: Sequence[int], requests: Sequence[Request], now: float) -> float:
    """Seconds until the next request comes by itself."""
    times = [requests[n].at_s for n in waiting if requests[n].after is None and requests[n].continues is None]
    if not times:
        raise RuntimeError(f"requests {list(waiting)} wait for tokens that never come")
    return max(0.0, min(times) - now)


def serve_scenarios(
    load: Callable[[Path, int], Program],
    packages: Sequence[str],
    more: Mapping[str, Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]] | None = None,
) -> None:
    """Answer requests until standard input ends: ``load`` and ``memory`` as `serve` does, and ``play``.

    Args:
        load: Loads a model, given its path and the number of threads.
        packages: Their versions are told.
        more: What else can be asked for, by name.
    """

    def answer(program: Program, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["do"] != "play":
            return (more or {})[request["do"]](program, request)
        scenario = Scenario.from_json(request["scenario"])
        return play(program.open(scenario.setup), scenario).to_json()

    serve(load, packages, answer=answer)
