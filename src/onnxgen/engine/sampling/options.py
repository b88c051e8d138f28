"""`SamplingOptions`: everything that says how one sequence's next token is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from onnxgen.engine.sampling.checks import check_integer, check_number, check_repetition_penalty
from onnxgen.engine.sampling.draw import fresh_seed
from onnxgen.engine.sampling.token_options import (
    Pairs,
    Places,
    Words,
    check_known,
    token_biases,
    token_ids,
    token_places,
    token_words,
)

MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How one sequence's next token is chosen. The defaults are greedy.

    Changes to the logits come first, in this order: ``logit_bias``, ``repetition_penalty``, ``presence_penalty`` and
    ``frequency_penalty``, ``dry_multiplier``, a request's own processors, then what is banned (``min_length``,
    ``bad_words``, ``no_repeat_ngram_size``), then ``forced_tokens``. What may be drawn is narrowed after that, in the
    order of `onnxgen.graph.cpu.draws.Draw`: temperature, top-n-sigma, top-k, typical, top-p, min-p, top-a, XTC.

    Attributes:
        temperature: Divides the logits. 0 takes the best token, whatever the options below say of drawing.
        top_k: Only the ``top_k`` best tokens may be drawn; 0, or more than the vocabulary, is off, 1 is greedy.
        top_p: Only the smallest set of best tokens whose probabilities reach ``top_p`` may be drawn; 1 is
            off, 0 keeps the best token.
        top_n_sigma: Only tokens whose logits are within so many standard deviations of the best; 0 is off.
        typical_p: Only the most typical tokens whose probabilities reach this; 1 is off.
        min_p: Only tokens at least this share as probable as the best one; 0 is off.
        top_a: Only tokens of at least ``top_a`` times the square of the best probability; 0 is off.
        xtc_probability: How often the best tokens are excluded, all but the last of those that reach
            ``xtc_threshold``; 0 is off.
        xtc_threshold: The probability from which on a token is one of them; above 0.5 there never are two.
        mirostat: 1 or 2 steers the surprise of what is drawn; 0 is off.
        mirostat_tau: The surprise aimed at, in bits; 0 to 100.
        mirostat_eta: How fast it is approached.
        repetition_penalty: Logits of tokens that the sequence already holds (prompt included) are divided by
            this if positive and multiplied if negative, once per distinct token; 1 is off.
        repetition_window: How many of the last tokens ``repetition_penalty`` looks at; 0 is the whole sequence.
        presence_penalty: Taken from the logits of tokens that were generated (the prompt does not count),
            -2 to 2; 0 is off.
        frequency_penalty: Likewise, once for each time a token was generated.
        dry_multiplier: Takes ``dry_multiplier * dry_base ** (length - dry_allowed_length)`` from the logit of a token
            that would lengthen a repetition of ``length`` tokens; 0 is off.
        dry_base: How fast that grows, at least 1.
        dry_allowed_length: The longest repetition that may be lengthened freely is one shorter than this; at least 1.
        dry_window: How many of the last tokens are searched for repetitions; 0 is the whole sequence.
        dry_breakers: Tokens that no repetition reaches across, and that are never penalized.
        no_repeat_ngram_size: No run of this many tokens may occur twice; 0 is off.
        min_length: No end-of-sequence token before the sequence holds this many tokens, prompt included.
        bad_words: Token sequences that must not occur: the last token of one is banned after the ones before it.
        logit_bias: Added to the logits of single tokens, -100 to 100, or ``-inf``, which forbids a token for good.
            A mapping is taken too.
        forced_tokens: ``(place, token)``: which token stands at a place of the answer, counted from 0. A mapping, or
            plain token ids of places 0, 1, 2, ..., are taken too. A forced token is chosen whatever else is banned.
        seed: The random numbers, 0 to 2**64 - 1. None draws fresh entropy for every sequence.
        stream: Separates sequences that share a seed (the second answer to a prompt, the rows of a batch);
            0 to 2**64 - 1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    min_p: float = 0.0
    top_a: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: Literal[0, 1, 2] = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repetition_penalty: float = 1.0
    repetition_window: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = 0
    dry_breakers: tuple[int, ...] = ()
    no_repeat_ngram_size: int = 0
    min_length: int = 0
    bad_words: Words = ()
    logit_bias: Pairs = ()
    forced_tokens: Places = ()
    seed: int | None = None
    stream: int = 0

    def __post_init__(self) -> None:
        """Check types and ranges, and bring lists and mappings into one form.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        for name in _NAMES:
            value: Any = getattr(self, name)
            if name in _FLOATS:
                low, high = _FLOATS[name]
                check_number(name, value, low=low, high=high)
            elif name in _INTEGERS:
                low, high = _INTEGERS[name]
                check_integer(name, value, low=low, high=high)
            elif name in _TOKENS:
                if not isinstance(value, tuple) or value:
                    object.__setattr__(self, name, _TOKENS[name](name, value))
            elif name == "repetition_penalty":
                check_repetition_penalty(value)
            elif value is not None:
                check_integer(name, value, low=0, high=MAX_SEED)

    @property
    def greedy(self) -> bool:
        """Whether the best token is taken, so that nothing is drawn."""
        return self.temperature == 0 or self.top_k == 1 or self.top_p == 0

    def check_ids(self, vocab_size: int) -> None:
        """Check the token ids that options hold against a vocabulary.

        Args:
            vocab_size: Ids below it may be chosen.

        Raises:
            TokenIdError: Naming the option, the id and the range.
        """
        check_known("dry_breakers", self.dry_breakers, vocab_size)
        check_known("bad_words", (token for word in self.bad_words for token in word), vocab_size)
        check_known("logit_bias", (token for token, _ in self.logit_bias), vocab_size)
        check_known("forced_tokens", (token for _, token in self.forced_tokens), vocab_size)

    def with_seed(self) -> SamplingOptions:
        """These options with a seed: their own, or fresh entropy. Called once for a sequence's life."""
        return self if self.seed is not None else replace(self, seed=fresh_seed())

    def for_samples(self, count: int) -> list[SamplingOptions]:
        """Options of several answers to one prompt: one seed, a stream for each."""
        seeded = self.with_seed()
        return [replace(seeded, stream=(self.stream + i) & MAX_SEED) for i in range(count)]


_NAMES = tuple(field.name for field in fields(SamplingOptions))
_FLOATS = {
    "temperature": (0.0, math.inf),
    "top_p": (0.0, 1.0),
    "top_n_sigma": (0.0, math.inf),
    "typical_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "top_a": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "mirostat_tau": (0.0, 100.0),
    "mirostat_eta": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "dry_multiplier": (0.0, math.inf),
    "dry_base": (1.0, math.inf),
}
_INTEGERS = {
    "top_k": (0, None),
    "mirostat": (0, 2),
    "repetition_window": (0, None),
    "dry_allowed_length": (1, None),
    "dry_window": (0, None),
    "no_repeat_ngram_size": (0, None),
    "min_length": (0, None),
    "stream": (0, MAX_SEED),
}
_TOKENS = {
    "dry_breakers": token_ids,
    "bad_words": token_words,
    "logit_bias": token_biases,
    "forced_tokens": token_places,
}
