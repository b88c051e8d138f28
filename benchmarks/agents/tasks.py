"""What is measured of one program, in one turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jsonschema
from benchmarks.agents import work
from benchmarks.peers.worker import WorkerError

from onnxgen.preprocess.tokenizer import Tokenizer

Measured = tuple[str, float]
"""A metric and its value."""


class Asked(Protocol):
    """A process that holds a loaded model."""

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Ask for one thing and wait for the answer."""
        ...


@dataclass
class Lab:
    """What tasks share.

    Attributes:
        tokenizer: Of the model.
        new_tokens: Of each answer whose length nothing else decides.
        drafts: The most tokens that are guessed at once.
        match: Tokens that must have occurred before; see `benchmarks.agents.workers.asking.Wish`.
        missing: What programs cannot do, in their own words, by metric.
    """

    tokenizer: Tokenizer
    new_tokens: int
    drafts: int
    match: int
    missing: dict[str, str] = field(default_factory=dict)
    _schemas: int = 0

    def new_schema(self) -> str:
        """A schema that no program has seen."""
        self._schemas += 1
        return work.many_things(f"kind {self._schemas}")


@dataclass(frozen=True)
class Task:
    """A group of metrics, measured one after the other; a step of it yields what it found."""

    name: str
    steps: Callable[[Lab], Sequence[tuple[str, Callable[[Asked], Iterator[Measured]]]]]


def _rate(answer: dict[str, Any]) -> float:
    """Tokens a second after the first one of each answer."""
    tokens = sum(map(len, answer["answers"])) - len(answer["answers"])
    return tokens / (answer["total_s"] - answer["first_s"])


def _held(at_once: int) -> Callable[[Lab], Sequence[tuple[str, Callable[[Asked], Iterator[Measured]]]]]:
    def steps(lab: Lab) -> list[tuple[str, Callable[[Asked], Iterator[Measured]]]]:
        prompts = work.things(lab.tokenizer.encode)
        asked = {"prompts": prompts[:at_once], "new_tokens": lab.new_tokens}

        def run(name: str, **how: Any) -> tuple[str, Callable[[Asked], Iterator[Measured]]]:
            def step(worker: Asked) -> Iterator[Measured]:
                answer = worker.ask("answer", **asked, **how)
                yield f"{name} tok/s", _rate(answer)
                yield f"{name} first ms", 1e3 * answer["first_s"]

            return name, step

        def fresh(worker: Asked) -> Iterator[Measured]:
            schema = lab.new_schema()
            answer = worker.ask("answer", prompts=asked["prompts"], new_tokens=2, schema=schema)
            yield "new schema first ms", 1e3 * answer["first_s"]

        def valid(worker: Asked) -> Iterator[Measured]:
            schema = work.one_thing()
            count = 0
            for prompt in prompts:
                how = {"schema": json.dumps(schema), "to_end": True}
                (ids,) = worker.ask("answer", prompts=[prompt], new_tokens=128, **how)["answers"]
                count += _is_valid(lab.tokenizer.decode(ids), schema)
            yield "valid", count

        same = work.many_things()
        found = [run("free"), run("held", schema=same), run("written", schema=same, written=True)]
        return [*found, ("new schema", fresh), ("valid", valid)] if at_once == 1 else found

    return steps


def _is_valid(text: str, schema: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def _lookup(lab: Lab) -> list[tuple[str, Callable[[Asked], Iterator[Measured]]]]:
    copying, listed = work.list_to_copy(lab.tokenizer.encode)
    cases = {
        "copy": (copying, work.COPIED_TOKENS),
        "story": (work.story(lab.tokenizer.encode), lab.new_tokens),
    }

    def plain_and_guessed(name: str) -> Callable[[Asked], Iterator[Measured]]:
        prompt, new_tokens = cases[name]

        def step(worker: Asked) -> Iterator[Measured]:
            plain = worker.ask("answer", prompts=[prompt], new_tokens=new_tokens)
            yield f"{name} plain tok/s", _rate(plain)
            how = {"drafts": lab.drafts, "match": lab.match}
            guessed = worker.ask("answer", prompts=[prompt], new_tokens=new_tokens, **how)
            yield f"{name} guessed tok/s", _rate(guessed)
            yield f"{name} times", _rate(guessed) / _rate(plain)
            yield f"{name} same", plain["answers"] == guessed["answers"]
            if name == "copy":
                yield "copied", plain["answers"][0] == listed[:new_tokens]

        return step

    return [(name, plain_and_guessed(name)) for name in cases]


TASKS = (Task("held.1", _held(1)), Task("held.8", _held(8)), Task("lookup", _lookup))


def measure_step(
    step: Callable[[Asked], Iterator[Measured]], worker: Asked, lab: Lab, label: str
) -> list[Measured]:
    """What one step found; what the program cannot do is noted, and what came before it counts."""
    found: list[Measured] = []
    try:
        found.extend(step(worker))
    except WorkerError as error:
        lab.missing[label] = str(error)
    return found
