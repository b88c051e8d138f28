"""A beam search written a second time, slowly: whole sequences as tuples, every continuation enumerated and sorted.

It follows the descriptions of the rules in `onnxgen.engine.beams.options`, shares no code with the engine, and asks for
the log probabilities of a whole sequence instead of keeping any state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Wanted:
    num_beams: int
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    length_of: str = "answer"
    best_of: str = "beams"
    limit_ends: str = "candidates"


@dataclass(frozen=True)
class Found:
    answer: tuple[int, ...]
    eos: int | None
    score: float


def search(
    logits: Callable[[tuple[int, ...]], np.ndarray],
    prompt: tuple[int, ...],
    wanted: Wanted,
    *,
    eos: set[int],
    max_new_tokens: int,
) -> list[Found]:
    """All hypotheses, best first."""
    width = wanted.num_beams // wanted.num_beam_groups
    groups = [_Group(wanted, width, len(prompt), max_new_tokens) for _ in range(wanted.num_beam_groups)]
    for step in range(1, max_new_tokens + 1):
        chosen: list[int] = []
        for group in groups:
            if not group.done:
                chosen += group.step(logits, prompt, step, eos, chosen)
    for group in groups:
        group.finish(max_new_tokens)
    everything = [found for group in groups for found in group.found]
    return sorted(everything, key=lambda found: -found.score)


class _Group:
    def __init__(self, wanted: Wanted, width: int, prompt_tokens: int, longest: int) -> None:
        self.wanted, self.width, self.prompt_tokens, self.longest = wanted, width, prompt_tokens, longest
        self.beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        self.found: list[Found] = []
        self.done = False

    def normalized(self, total: float, new_tokens: int, *, ended: bool) -> float:
        if self.wanted.length_of == "answer":
            length = new_tokens
        else:
            length = self.prompt_tokens + new_tokens - (1 if ended else 0)
        return total / length**self.wanted.length_penalty

    def remember(self, found: Found) -> None:
        self.found.append(found)
        self.found = sorted(self.found, key=lambda each: -each.score)[: self.width]

    def step(self, logits, prompt, step, eos, chosen) -> list[int]:
        everything = []
        for beam, (answer, total) in enumerate(self.beams):
            row = logits((*prompt, *answer)).astype(np.float64)
            logprobs = row - np.log(np.exp(row - row.max()).sum()) - row.max()
            for token, logprob in enumerate(logprobs.tolist()):
                logprob -= self.wanted.diversity_penalty * chosen.count(token)
                everything.append((-(total + logprob), beam, token))
        everything.sort()
        at_limit = step == self.longest and self.wanted.limit_ends == "candidates"
        opened = []
        for rank, (negative, beam, token) in enumerate(everything):
            total, answer = -negative, self.beams[beam][0]
            if token in eos or at_limit:
                if rank < self.width:
                    score = self.normalized(total, step, ended=token in eos)
                    whole = answer if token in eos else (*answer, token)
                    self.remember(Found(whole, token if token in eos else None, score))
            elif len(opened) < self.width:
                opened.append(((*answer, token), total))
        self.beams = opened
        best = -everything[0][0]
        if self.wanted.best_of == "beams":
            best = max((total for _, total in opened), default=-math.inf)
        if not opened:
            self.done = True
        elif len(self.found) == self.width:
            to_the_end = self.wanted.early_stopping == "never" and self.wanted.length_penalty > 0
            reached = self.normalized(best, self.longest if to_the_end else step, ended=not to_the_end)
            self.done = self.wanted.early_stopping is True or self.found[-1].score >= reached
        return [answer[-1] for answer, _ in opened]

    def finish(self, step: int) -> None:
        for answer, total in [] if self.done else self.beams:
            self.remember(Found(answer, None, self.normalized(total, step, ended=False)))
