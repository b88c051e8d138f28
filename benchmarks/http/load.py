"""Clients that ask at once: all questions together or at times of their own, or one after the other for a while."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.http.answers import Answer, read_answer
from benchmarks.http.client import Client, Exchange
from benchmarks.http.work import Question

T = TypeVar("T")


def run_clients(clients: Coroutine[Any, Any, T]) -> T:
    """Run clients in an event loop that takes as little as can be: a third of what asyncio's own takes for an event."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        from asyncio import new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(clients)


@dataclass(frozen=True)
class Target:
    """A server.

    Attributes:
        host: Address.
        port: Port.
        model: What requests call the model.
        key: What they carry as a key, if the server wants one.
    """

    host: str
    port: int
    model: str
    key: str | None = None

    def client(self) -> Client:
        """A new connection, made when it is first used."""
        return Client(self.host, self.port, key=self.key)


async def ask_all(
    target: Target, questions: Sequence[Question], *, at_once: int | None = None, timeout_s: float = 300.0
) -> list[Answer]:
    """Ask every question at its time (open loop), or with ``at_once`` clients that ask whenever they may (closed loop).

    Answers are read when all have come: reading takes nothing from the server.
    """
    waiting = iter(enumerate(questions))
    found: list[Exchange | None] = [None] * len(questions)
    bodies = [question.body(target.model) for question in questions]
    began = time.perf_counter()

    async def ask_in_turn(client: Client) -> None:
        for number, question in waiting:  # one iterator for all clients: each takes the next
            pause = began + question.at_s - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            found[number] = await client.ask(question.path, bodies[number], timeout_s=timeout_s)

    with ExitStack() as stack:
        count = min(at_once or len(questions), len(questions))
        clients = [stack.enter_context(target.client()) for _ in range(count)]
        await asyncio.gather(*(ask_in_turn(client) for client in clients))
    return [read_answer(exchange) for exchange in found if exchange is not None]


@dataclass
class Tally:
    """What clients saw while they asked for a while.

    Attributes:
        answers: Whole answers.
        left: Answers that their client left.
        new_tokens: Of whole answers.
        problems: What was wrong, in words, with its time; the first ones only.
        wrong: How many answers were wrong.
    """

    answers: int = 0
    left: int = 0
    new_tokens: int = 0
    problems: list[str] = field(default_factory=list)
    wrong: int = 0


MOST_PROBLEMS = 50


async def ask_for_a_while(
    target: Target,
    questions: Sequence[Question],
    *,
    clients: int,
    seconds: float,
    check: Callable[[int, Answer], Sequence[str]],
    seen: Callable[[Answer], None],
    leaving: float = 0.0,
    seed: int = 0,
    timeout_s: float = 120.0,
) -> Tally:
    """Clients that ask again and again until the time is over, in a random order; the answers under way then still come.

    Args:
        target: The server.
        questions: What is asked.
        clients: How many ask at once.
        seconds: For how long.
        check: What is wrong with the answer to a question, given its number, beside what `read_answer` says.
        seen: Told every whole answer.
        leaving: The share of requests whose client goes after one to forty events.
        seed: Of the order, and of who leaves.
        timeout_s: How long an answer may take.
    """
    tally = Tally()
    began = time.perf_counter()
    bodies = [question.body(target.model) for question in questions]

    async def ask_on(number: int) -> None:
        source = random.Random(f"{seed}/{number}")
        with target.client() as client:
            while time.perf_counter() - began < seconds:
                chosen = source.randrange(len(questions))
                leave_after = source.randint(1, 40) if source.random() < leaving else None
                body, path = bodies[chosen], questions[chosen].path
                exchange = await client.ask(path, body, timeout_s=timeout_s, leave_after=leave_after)
                answer = read_answer(exchange)
                note(chosen, answer)
                if answer.problems:
                    await asyncio.sleep(
                        0.1
                    )  # a server that refuses everything is not to be asked in a tight loop

    def note(chosen: int, answer: Answer) -> None:
        problems = [*answer.problems, *check(chosen, answer)]
        if answer.left:
            tally.left += 1
        else:
            tally.answers += 1
            tally.new_tokens += answer.new_tokens
            seen(answer)
        if problems:
            tally.wrong += 1
            if len(tally.problems) < MOST_PROBLEMS:
                after = answer.sent_s - began
                tally.problems.append(f"question {chosen}, asked after {after:.1f} s: {'; '.join(problems)}")

    await asyncio.gather(*(ask_on(number) for number in range(clients)))
    return tally
