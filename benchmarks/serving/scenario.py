"""What is asked of a server, and when: fixed lists, the same for everybody."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.measuring import prompt_ids

_VOCAB_SIZE = 40000  # all models have at least so many


@dataclass(frozen=True)
class Request:
    """One answer that is wanted, greedy and of exactly ``new_tokens`` tokens.

    Attributes:
        prompt: Token ids.
        new_tokens: Length of the answer.
        at_s: Seconds from the start of the scenario to its arrival.
        after: It arrives when the request with this number has so many tokens, instead.
        continues: Its prompt is that of the request with this number, then the answer to it, then ``prompt``. It
            arrives when that answer is whole.
    """

    prompt: Sequence[int]
    new_tokens: int
    at_s: float = 0.0
    after: tuple[int, int] | None = None
    continues: int | None = None


@dataclass(frozen=True)
class Setup:
    """How a server is opened. Each play of a scenario begins with an empty cache.

    Attributes:
        max_seqs: Sequences that may run at once.
        max_tokens: The longest sequence.
        step_tokens: The most tokens of one step.
        prefix_reuse: Whether a prompt may take over what was computed for others; None is the program's default.
        parts: Whether the times of a step's parts are wanted.
    """

    max_seqs: int
    max_tokens: int
    step_tokens: int = 512
    prefix_reuse: bool | None = None
    parts: bool = False


@dataclass(frozen=True)
class Scenario:
    """Requests, and the server that they are sent to."""

    requests: Sequence[Request]
    setup: Setup

    @property
    def prompt_tokens(self) -> int:
        """Of all requests; what a request continues counts again."""
        return sum(whole_lengths(self.requests)) - self.new_tokens

    @property
    def new_tokens(self) -> int:
        """Of all requests."""
        return sum(request.new_tokens for request in self.requests)

    def cut(self, *, prompt: int, answer: int) -> Scenario:
        """The same with shorter prompts and answers, to warm up."""
        return replace(
            self,
            requests=[
                replace(
                    one,
                    prompt=one.prompt[:prompt],
                    new_tokens=min(one.new_tokens, answer),
                    at_s=0.0,
                    after=one.after and (one.after[0], min(one.after[1], answer)),
                )
                for one in self.requests
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """What a worker is told."""
        return {"requests": [asdict(request) for request in self.requests], "setup": asdict(self.setup)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Scenario:
        """The inverse of `to_json`."""
        requests = [
            Request(**{**one, "after": one["after"] and tuple(one["after"])}) for one in values["requests"]
        ]
        return Scenario(requests, Setup(**values["setup"]))


def whole_lengths(requests: Sequence[Request]) -> list[int]:
    """Tokens of each request's sequence at its end."""
    lengths: list[int] = []
    for request in requests:
        before = 0 if request.continues is None else lengths[request.continues]
        lengths.append(before + len(request.prompt) + request.new_tokens)
    return lengths


def _scenario(requests: Sequence[Request], *, max_seqs: int | None = None, **setup: Any) -> Scenario:
    longest = max(whole_lengths(requests))
    return Scenario(requests, Setup(max_seqs=max_seqs or len(requests), max_tokens=longest, **setup))


def mixed(count: int, *, requests_per_s: float | None = None, step_tokens: int = 512) -> Scenario:
    """Prompts of 32 to 1,024 tokens, answers of 16 to 256, lengths uniform in their logarithm.

    A longer list begins with the shorter one. All come at once, or ``requests_per_s`` as a Poisson process.
    """
    lengths, pauses = random.Random(2026), random.Random(11)
    requests: list[Request] = []
    now = 0.0
    for number in range(count):
        prompt_tokens, new_tokens = _between(lengths, 32, 1024), _between(lengths, 16, 256)
        if requests_per_s is not None:
            now += pauses.expovariate(requests_per_s)
        requests.append(
            Request(prompt_ids(prompt_tokens, _VOCAB_SIZE, seed=number), new_tokens, at_s=round(now, 4))
        )
    return _scenario(requests, step_tokens=step_tokens)


def _between(source: random.Random, least: int, most: int) -> int:
    return round(math.exp(source.uniform(math.log(least), math.log(most))))


def shared_prompt(
    *, in_turn: bool, prefix_reuse: bool, count: int = 16, shared: int = 512, tail: int = 32
) -> Scenario:
    """Requests with one system prompt and tails of their own, one after the other or all at once."""
    system = prompt_ids(shared, _VOCAB_SIZE, seed=7)
    new_tokens = 16
    requests = [
        Request(
            [*system, *prompt_ids(tail, _VOCAB_SIZE, seed=1000 + number)],
            new_tokens,
            after=(number - 1, new_tokens) if in_turn and number else None,
        )
        for number in range(count)
    ]
    return _scenario(requests, prefix_reuse=prefix_reuse)


def joining(prompt: int, *, step_tokens: int, others: int = 8, other_tokens: int = 64) -> Scenario:
    """Some requests decode; when all have had some tokens, another one with a prompt of its own comes. It is the last."""
    requests = [Request(prompt_ids(64, _VOCAB_SIZE, seed=number), other_tokens) for number in range(others)]
    late = Request(prompt_ids(prompt, _VOCAB_SIZE, seed=500), 16, after=(others - 1, other_tokens // 4))
    return _scenario([*requests, late], step_tokens=step_tokens)


def steady(count: int, *, prompt: int = 128, new_tokens: int = 48) -> Scenario:
    """Requests of equal length, which decode side by side."""
    requests = [Request(prompt_ids(prompt, _VOCAB_SIZE, seed=number), new_tokens) for number in range(count)]
    return _scenario(requests, parts=True)


def conversation(turns: int, *, system: int = 256, user: int = 48, answer: int = 64) -> Scenario:
    """Turns of a conversation, each with everything before it as its prompt."""
    requests = [
        Request(
            prompt_ids(user + (0 if number else system), _VOCAB_SIZE, seed=300 + number),
            answer,
            continues=number - 1 if number else None,
        )
        for number in range(turns)
    ]
    return _scenario(requests, max_seqs=1, prefix_reuse=True)
