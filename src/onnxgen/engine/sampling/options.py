"""`SamplingOptions`: everything that says how one sequence's next token is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from onnxgen.engine.sampling.draw import fresh_seed
from onnxgen.errors import OptionError

MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How one sequence's next token is chosen. The defaults are greedy.

    Attributes:
        temperature: Divides the logits. 0 takes the best token, whatever the other options say.
        top_k: Only the ``top_k`` best tokens may be drawn; 0, or more than the vocabulary, is off, 1 is greedy.
        top_p: Only the smallest set of best tokens whose probabilities reach ``top_p`` may be drawn; 1 is
            off, 0 keeps the best token.
        repetition_penalty: Logits of tokens that the sequence already holds (prompt included) are divided by
            this if positive and multiplied if negative, once per distinct token; 1 is off.
        presence_penalty: Taken from the logits of tokens that were generated (the prompt does not count),
            -2 to 2; 0 is off.
        frequency_penalty: Likewise, once for each time a token was generated.
        no_repeat_ngram_size: No run of this many tokens may occur twice; 0 is off.
        min_length: No end-of-sequence token before the sequence holds this many tokens, prompt included.
        seed: The random numbers, 0 to 2**64 - 1. None draws fresh entropy for every sequence.
        stream: Separates sequences that share a seed (the second answer to a prompt, the rows of a batch);
            0 to 2**64 - 1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    min_length: int = 0
    seed: int | None = None
    stream: int = 0

    def __post_init__(self) -> None:
        """Check types and ranges.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if field.name == "seed" and value is None:
                continue
            if field.name == "repetition_penalty":
                check_repetition_penalty(value)
            elif field.name in _FLOATS:
                low, high = _FLOATS[field.name]
                check_number(field.name, value, low=low, high=high)
            else:
                check_integer(field.name, value, low=0, high=MAX_SEED if field.name in _WORDS else None)

    @property
    def greedy(self) -> bool:
        """Whether the best token is taken, so that nothing is drawn."""
        return self.temperature == 0 or self.top_k == 1 or self.top_p == 0

    @property
    def looks_back(self) -> bool:
        """Whether the tokens so far change the logits."""
        return bool(
            self.repetition_penalty != 1
            or self.presence_penalty
            or self.frequency_penalty
            or self.no_repeat_ngram_size
        )

    def with_seed(self) -> SamplingOptions:
        """These options with a seed: their own, or fresh entropy. Called once for a sequence's life."""
        return self if self.seed is not None else replace(self, seed=fresh_seed())

    def for_samples(self, count: int) -> list[SamplingOptions]:
        """Options of several answers to one prompt: one seed, a stream for each."""
        seeded = self.with_seed()
        return [replace(seeded, stream=(self.stream + i) & MAX_SEED) for i in range(count)]


_FLOATS = {
    "temperature": (0.0, math.inf),
    "top_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
_WORDS = ("seed", "stream")


def check_number(name: str, value: object, *, low: float, high: float) -> float:
    """A finite number within ``[low, high]``.

    Raises:
        OptionError: It is not a number (a bool is none), not finite or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f"{name} must be a number {_between(low, high)}, got {value!r}")
    number = float(value)
    if not math.isfinite(number) or not low <= number <= high:
        raise OptionError(f"{name} must be a finite number {_between(low, high)}, got {value!r}")
    return number


def check_repetition_penalty(value: object) -> float:
    """A finite number above 0.

    Raises:
        OptionError: It is none.
    """
    number = check_number("repetition_penalty", value, low=0, high=math.inf)
    if number == 0:
        raise OptionError("repetition_penalty must be above 0, got 0; 1 switches it off")
    return number


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """An integer within ``[low, high]``; None is no upper bound.

    Raises:
        OptionError: It is not an integer (a bool is none) or out of range.
    """
    between = _between(low, math.inf if high is None else high)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{name} must be an integer {between}, got {value!r}")
    if value < low or (high is not None and value > high):
        raise OptionError(f"{name} must be {between.removeprefix('of ')}, got {value}")
    return value


def _between(low: float, high: float) -> str:
    least = f"{low:g}" if isinstance(low, float) else low
    return f"of at least {least}" if high == math.inf else f"between {least} and {high}"
