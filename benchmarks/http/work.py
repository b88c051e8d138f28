"""What clients ask: the same conversations for every program, and answers that show a lost or crossed token."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"

# each with the blank before it is one token of SmolLM2's vocabulary, so that a count of words is one of tokens
_WORDS = (
    "lamp chair river stone garden window bridge market winter summer music paper silver orange yellow table clock "
    "horse tiger eagle apple bread sugar water fire glass cotton leather copper marble forest island mountain valley "
    "desert ocean planet engine rocket camera pencil button pocket mirror candle ladder hammer needle basket bottle "
    "blanket carpet curtain pillow kitchen bedroom office school church hospital library museum theater station "
    "airport harbor castle tower village city"
)
WORDS = _WORDS.split()


@dataclass(frozen=True)
class Question:
    """A greedy answer of exactly ``new_tokens`` tokens that is wanted.

    Attributes:
        path: The endpoint.
        prompt: Messages, or text for ``/v1/completions``.
        new_tokens: Length of the answer.
        at_s: Seconds from the beginning to its sending, where questions come at times of their own.
    """

    path: str
    prompt: Sequence[dict[str, str]] | str
    new_tokens: int
    at_s: float = 0.0

    def body(self, model: str) -> bytes:
        """JSON of the request, with ``ignore_eos``, which all programs here have beside OpenAI's fields."""
        name = "messages" if self.path == CHAT else "prompt"
        fields: dict[str, Any] = {
            "model": model,
            name: self.prompt,
            "max_tokens": self.new_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(fields).encode()


def conversation(words: int, *, seed: int) -> list[dict[str, str]]:
    """A user's message of so many words, which no cache has seen."""
    source = random.Random(seed)
    return [{"role": "user", "content": " ".join(source.choice(WORDS) for _ in range(words))}]


def mixed_lengths(count: int) -> list[tuple[int, int]]:
    """Words of a prompt and tokens of an answer: 32 to 512 and 16 to 128, uniform in their logarithm."""
    source = random.Random(2026)
    return [(round(32 * 16 ** source.random()), round(16 * 8 ** source.random())) for _ in range(count)]


def mixed(count: int, *, seed: int, requests_per_s: float | None = None) -> list[Question]:
    """So many conversations of mixed lengths, the same lengths for every seed; all at once, or as a Poisson process.

    A longer list begins with the lengths of the shorter one.
    """
    pauses = random.Random(seed)
    now, questions = 0.0, []
    for number, (words, new_tokens) in enumerate(mixed_lengths(count)):
        if requests_per_s is not None:
            now += pauses.expovariate(requests_per_s)
        prompt = conversation(words, seed=seed * 1000 + number)
        questions.append(Question(CHAT, prompt, new_tokens, at_s=now))
    return questions


def steady(count: int, *, seed: int, words: int = 96, new_tokens: int = 64) -> list[Question]:
    """Conversations of equal length, which are answered side by side."""
    return [Question(CHAT, conversation(words, seed=seed * 1000 + n), new_tokens) for n in range(count)]


def recognizable(count: int, *, new_tokens: int) -> list[Question]:
    """Questions no two of which have the same answer: half count on from a number of their own, half tell of a thing.

    A number that is missing, comes twice or belongs to somebody else's answer shows at once.
    """
    questions = []
    for number in range(count):
        pair, kind = divmod(number, 2)
        if kind:
            first, second = pair % len(WORDS), (pair + pair // len(WORDS) + 1) % len(WORDS)
            things = f"{WORDS[first]} and a {WORDS[second]}"
            prompt = [{"role": "user", "content": f"Write a short story about a {things}."}]
            questions.append(Question(CHAT, prompt, new_tokens))
        else:
            first = 1105 + 137 * pair
            counted = " ".join(str(first + step) for step in range(8))
            questions.append(Question(COMPLETIONS, counted, new_tokens))
    return questions
