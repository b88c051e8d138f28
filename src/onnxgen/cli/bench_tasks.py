"""What ``onnxgen bench`` lets backends do, in turns, against the clock."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.errors import OptionError

if TYPE_CHECKING:
    from onnxgen.backends.base import Backend

STREAM_PROMPT = 128
"""Prompt tokens of each of several sequences."""

Rates = dict[str, float]
"""Tokens per second by metric: ``prefill.512``, ``decode.128``, ``streams.16.decode_tok_s``, ``streams.16.e2e_tok_s``."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to measure.

    Attributes:
        kind: ``prefill``, ``decode`` or ``streams``.
        size: Prompt tokens of the first two, sequences of the last.
        new_tokens: Tokens of each answer; the first is chosen by the prompt's own step.
    """

    kind: str
    size: int
    new_tokens: int

    @property
    def context(self) -> int:
        """Tokens that one sequence must have room for."""
        return (STREAM_PROMPT if self.kind == "streams" else self.size) + self.new_tokens

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured: keys of `Rates`."""
        name = f"{self.kind}.{self.size}"
        return (f"{name}.decode_tok_s", f"{name}.e2e_tok_s") if self.kind == "streams" else (name,)

    def prompts(self, vocab_size: int) -> list[list[int]]:
        """Random token ids, the same in every run."""
        length, count = (STREAM_PROMPT, self.size) if self.kind == "streams" else (self.size, 1)
        dice = random.Random(self.size)
        return [dice.choices(range(vocab_size), k=length) for _ in range(count)]


def sizes_in(text: str, option: str) -> tuple[int, ...]:
    """The numbers in a list with commas; an empty text has none.

    Raises:
        OptionError: One is not a whole number above 0, or is there twice.
    """
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdigit() and int(word) for word in words):
        raise OptionError(f"{option} {text!r} is no list of whole numbers above 0, such as 128,512")
    sizes = tuple(int(word) for word in words)
    if len(set(sizes)) < len(sizes):
        raise OptionError(f"{option} {text!r} has a number twice")
    return sizes


def run_task(task: Task, backend: Backend, prompts: Sequence[Sequence[int]], *, chunk_tokens: int) -> Rates:
    """Do it once."""
    from onnxgen.backends.timed_steps import time_answers

    times = time_answers(backend, prompts, task.new_tokens, chunk_tokens=chunk_tokens)
    later = len(prompts) * (task.new_tokens - 1)
    if task.kind == "prefill":
        rates = [task.size / times.prefill_s]
    elif task.kind == "decode":
        rates = [later / times.decode_s]
    else:
        rates = [later / times.decode_s, len(prompts) * task.new_tokens / times.total_s]
    return dict(zip(task.metrics, rates, strict=True))


def warm_up(tasks: Iterable[Task], backend: Backend, vocab_size: int, *, chunk_tokens: int) -> None:
    """Do the beginning of each task unmeasured: the prompts and one step more."""
    from onnxgen.backends.timed_steps import Answers

    for task in tasks:
        prompts = task.prompts(vocab_size)
        with Answers(backend, prompts, task.new_tokens, chunk_tokens=chunk_tokens) as answers:
            answers.read_prompts()
            answers.write(min(1, task.new_tokens - 1))


def measure(
    tasks: Sequence[Task],
    backends: Mapping[str, Backend],
    vocab_size: int,
    *,
    chunk_tokens: int,
    repeats: int,
    done: Callable[[Task], None],
) -> dict[str, Rates]:
    """Medians of all tasks, by the names of the backends, which take turns: A B, B A, so that each is first as often.

    Args:
        tasks: What to do.
        backends: Who does it.
        vocab_size: Prompts have ids below it.
        chunk_tokens: The most prompt tokens in one step.
        repeats: Rounds of each task.
        done: Called after each task.
    """
    medians: dict[str, Rates] = {name: {} for name in backends}
    for task in tasks:
        prompts = task.prompts(vocab_size)
        rounds: dict[str, list[Rates]] = {name: [] for name in backends}
        for number in range(repeats):
            for name in list(backends)[:: -1 if number % 2 else 1]:
                rounds[name].append(run_task(task, backends[name], prompts, chunk_tokens=chunk_tokens))
        for name, rates in rounds.items():
            medians[name] |= {metric: statistics.median(r[metric] for r in rates) for metric in task.metrics}
        done(task)
    return medians
