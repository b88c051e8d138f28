"""What a worker is asked, and what it answers.

::

    {"do": "answer", "prompts": [[..], ..], "new_tokens": 96, "schema": "{..}", "written": true, "to_end": false, "drafts": 0, "match": 2}
                -> {"first_s": 0.1, "total_s": 0.6, "answers": [[..], ..]}

`benchmarks.peers.workers.serving` has the rest: loading, and how lines are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.workers.serving import serve


@dataclass(frozen=True)
class Wish:
    """Greedy answers to prompts, all at once.

    Attributes:
        prompts: Token ids; of equal length where there are several.
        new_tokens: Of each answer.
        schema: JSON text of the schema that answers are held to; None: they are free.
        written: Tokens that must follow may be written without asking the model.
        to_end: An answer ends where the model ends it; else an end-of-text token ends nothing.
        drafts: The most tokens that are guessed at once; 0: none are.
        match: Tokens that occurred before, so that what followed them is guessed: the least that count in onnxgen, as many
            in onnxruntime-genai, and the most that are looked for in OpenVINO and llama.cpp, which also guess from one.
    """

    prompts: Sequence[Sequence[int]]
    new_tokens: int
    schema: str | None = None
    written: bool = False
    to_end: bool = False
    drafts: int = 0
    match: int = 2


@dataclass(frozen=True)
class Answered:
    """What became of a wish.

    Attributes:
        first_s: Until all answers had their first token, the schema's compilation counted.
        total_s: Until all had their last.
        answers: Token ids.
    """

    first_s: float
    total_s: float
    answers: list[list[int]]


class Program(Protocol):
    """A loaded model in one program."""

    def answer(self, wish: Wish) -> Answered:
        """Answer; raises `NotImplementedError` where the program has no such thing."""
        ...


def serve_wishes(load: Callable[[Path, int], Program], packages: Sequence[str]) -> None:
    """Answer wishes until standard input ends."""
    serve(load, packages, answer=_answer)


def _answer(program: Program, request: Mapping[str, Any]) -> dict[str, Any]:
    wish = Wish(**{name: value for name, value in request.items() if name != "do"})
    return asdict(program.answer(wish))
