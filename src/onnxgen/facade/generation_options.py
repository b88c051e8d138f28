"""`GenerationOptions`: how `LLM` answers, each value checked, and what it means together with a model folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from onnxgen.engine.sampling.options import (
    MAX_SEED,
    SamplingOptions,
    check_integer,
    check_number,
    check_repetition_penalty,
)
from onnxgen.errors import CapabilityError, MetadataError, OptionError
from onnxgen.facade.params import sampling_from_search
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.model_spec import SearchDefaults


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """How to answer. None takes the model folder's default.

    Attributes:
        max_new_tokens: The answer's length at most, in tokens; None is what is left of the context.
        min_new_tokens: No end-of-sequence token before the answer has this many tokens.
        temperature: 0 takes the best token each time. A value above 0, ``top_k`` or ``top_p`` switches
            sampling on, whatever the model folder says.
        top_k: Draw from this many best tokens only; 0 is off.
        top_p: Draw from the fewest best tokens whose probabilities reach this; 1 is off.
        repetition_penalty: Above 1 makes tokens that occurred (prompt included) less likely.
        seed: Makes sampling reproducible: the same answer alone or among others. None: fresh entropy.
        stop: Texts that end the answer; they are not part of it. One text may be given as it is.
        ignore_eos: End-of-sequence tokens do not end the answer.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        _check_stop(self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))
        check_integer("min_new_tokens", self.min_new_tokens, low=0)
        if self.max_new_tokens is not None:
            check_integer("max_new_tokens", self.max_new_tokens, low=1)
            if self.min_new_tokens > self.max_new_tokens:
                raise OptionError(
                    f"min_new_tokens is {self.min_new_tokens}, more than max_new_tokens {self.max_new_tokens}"
                )
        if not isinstance(self.ignore_eos, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"ignore_eos must be True or False, got {self.ignore_eos!r}")
        for name, high in (("temperature", math.inf), ("top_p", 1.0)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=0, high=high)
        if self.repetition_penalty is not None:
            check_repetition_penalty(self.repetition_penalty)
        if self.top_k is not None:
            check_integer("top_k", self.top_k, low=0)
        if self.seed is not None:
            check_integer("seed", self.seed, low=0, high=MAX_SEED)

    def with_changes(self, changes: Mapping[str, Any]) -> GenerationOptions:
        """These options with some of them changed.

        Raises:
            OptionError: An option is unknown or out of range.
        """
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise OptionError(
                    f"unknown generation option {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"
                )
        return replace(self, **changes)


def changed_options(options: object, changes: Mapping[str, Any]) -> GenerationOptions:
    """Options as a caller gave them, None for the model folder's, with some of them changed.

    Raises:
        OptionError: They are something else, or an option is unknown or out of range.
    """
    if options is None:
        options = GenerationOptions()
    if not isinstance(options, GenerationOptions):
        raise OptionError(
            f"options must be GenerationOptions, got {options!r:.60}; single options are given by name"
        )
    return options.with_changes(changes)


def sampling_for(
    options: GenerationOptions, search: SearchDefaults, *, prompt_tokens: int
) -> SamplingOptions:
    """What options and a model folder's defaults mean together, for a prompt of ``prompt_tokens`` tokens.

    Raises:
        CapabilityError: The model folder asks for beams.
        MetadataError: One of its defaults is out of range.
    """
    if search.num_beams > 1:
        raise CapabilityError(
            f"the model folder asks for num_beams={search.num_beams}; this version has no beam search, "
            "set search.num_beams to 1 in its genai_config.json"
        )
    try:
        defaults = sampling_from_search(search)
    except OptionError as cause:
        raise MetadataError(
            f"the model folder's defaults for search: {cause}; mend its genai_config.json"
        ) from cause
    asked = {
        name: value
        for name in ("temperature", "top_k", "top_p", "repetition_penalty", "seed")
        if (value := getattr(options, name)) is not None
    }
    if asked.keys() & {"top_k", "top_p"} and not search.do_sample:
        asked.setdefault("temperature", search.temperature)
    return replace(defaults, min_length=_min_length(options, search, prompt_tokens), **asked)


def _min_length(options: GenerationOptions, search: SearchDefaults, prompt_tokens: int) -> int:
    return max(search.min_length, prompt_tokens + options.min_new_tokens if options.min_new_tokens else 0)


def _check_stop(stop: object) -> None:
    if not isinstance(stop, Sequence):
        raise OptionError(f"stop must be a text or a list of texts, got {stop!r}")
    for text in stop:
        if not isinstance(text, str) or not text:
            raise OptionError(f"stop must hold texts that are not empty, got {text!r}")
