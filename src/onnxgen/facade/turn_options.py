"""`TurnOptions`: how one turn of a `Request` is answered, by onnxruntime-genai's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.sampling.options import (
    MAX_SEED,
    SamplingOptions,
    check_integer,
    check_number,
    check_repetition_penalty,
)
from onnxgen.errors import OptionError
from onnxgen.facade.guidance import grammar_of
from onnxgen.facade.params import sampling_from_search
from onnxgen.metadata.model_spec import SearchDefaults

_IDLE = {"temperature": (0, 1), "top_k": (0, 1), "top_p": (0, 1)}
"""Values that fit to always taking the best token."""
_MOST_STOP_STRINGS, _MOST_STOP_BYTES = 16, 16384


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What was set; None is the model folder's default."""

    max_generated_tokens: int | None = None
    min_generated_tokens: int = 0
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    seed: int | None = None
    stop_strings: tuple[str, ...] = field(default=())
    grammar: Grammar | None = None

    def sampling(self, search: SearchDefaults, *, num_tokens: int) -> SamplingOptions:
        """What the settings mean for a sequence of ``num_tokens`` tokens, its new prompt included.

        Raises:
            OptionError: The settings contradict each other.
        """
        if self.max_generated_tokens is not None and self.min_generated_tokens > self.max_generated_tokens:
            raise OptionError(
                f"min_generated_tokens is {self.min_generated_tokens}, more than max_generated_tokens "
                f"{self.max_generated_tokens}"
            )
        drawing = {
            name: value
            for name in ("temperature", "top_k", "top_p")
            if (value := getattr(self, name)) is not None
        }
        others = {
            name: value
            for name in ("do_sample", "repetition_penalty", "no_repeat_ngram_size")
            if (value := getattr(self, name)) is not None
        }
        changed = sampling_from_search(replace(search, **drawing, **others))
        if changed.greedy and (
            idle := [f"{name}={value}" for name, value in drawing.items() if value not in _IDLE[name]]
        ):
            raise OptionError(
                f"{' and '.join(idle)} would change nothing, because the best token is always taken; set do_sample to "
                "True, with top_k other than 1, top_p and temperature above 0"
            )
        least = num_tokens + self.min_generated_tokens if self.min_generated_tokens else 0
        return replace(changed, min_length=least, **({} if self.seed is None else {"seed": self.seed}))


class TurnOptions:
    """Options of a turn, beginning with the model folder's.

    Args:
        request: The `Request` whose turns they are for; any other takes them too.
    """

    def __init__(self, request: object) -> None:
        del request  # the names are onnxruntime-genai's, the defaults the model folder's for every request
        self._settings = TurnSettings()

    @property
    def settings(self) -> TurnSettings:
        """The options as one value."""
        return self._settings

    def set_max_generated_tokens(self, count: int) -> None:
        """The longest answer, in tokens."""
        self._set(max_generated_tokens=check_integer("max_generated_tokens", count, low=1))

    def set_min_generated_tokens(self, count: int) -> None:
        """No end-of-sequence token before the answer has this many tokens."""
        self._set(min_generated_tokens=check_integer("min_generated_tokens", count, low=0))

    def set_do_sample(self, do_sample: bool) -> None:
        """Draw tokens (True) or take the best one each time (False)."""
        if not isinstance(do_sample, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"do_sample must be True or False, got {do_sample!r}")
        self._set(do_sample=do_sample)

    def set_temperature(self, temperature: float) -> None:
        """Divides the logits before a token is drawn."""
        self._set(temperature=check_number("temperature", temperature, low=0, high=math.inf))

    def set_top_k(self, top_k: int) -> None:
        """Draw from this many best tokens only; 0 is off."""
        self._set(top_k=check_integer("top_k", top_k, low=0))

    def set_top_p(self, top_p: float) -> None:
        """Draw from the fewest best tokens whose probabilities reach this."""
        self._set(top_p=check_number("top_p", top_p, low=0, high=1))

    def set_repetition_penalty(self, penalty: float) -> None:
        """Above 1 makes tokens that occurred less likely."""
        self._set(repetition_penalty=check_repetition_penalty(penalty))

    def set_no_repeat_ngram_size(self, size: int) -> None:
        """No run of this many tokens occurs twice; 0 is off."""
        self._set(no_repeat_ngram_size=check_integer("no_repeat_ngram_size", size, low=0))

    def set_seed(self, seed: int) -> None:
        """Makes drawing reproducible: the same tokens alone and among others."""
        self._set(seed=check_integer("seed", seed, low=0, high=MAX_SEED))

    def clear_seed(self) -> None:
        """Draw with fresh entropy again."""
        self._set(seed=None)

    def set_stop_strings(self, stop_strings: Sequence[str]) -> None:
        """Texts that end the answer; up to 16, of up to 16 KiB together."""
        if isinstance(stop_strings, str):
            raise OptionError(f"stop_strings must be a list of texts, got the text {stop_strings!r}")
        for index, text in enumerate(stop_strings):
            if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance] - see above
                raise OptionError(f"stop string {index} must be a text that is not empty, got {text!r}")
        size = sum(len(text.encode()) for text in stop_strings)
        if len(stop_strings) > _MOST_STOP_STRINGS or size > _MOST_STOP_BYTES:
            raise OptionError(
                f"{len(stop_strings)} stop strings of {size} bytes were given; at most {_MOST_STOP_STRINGS} of "
                f"{_MOST_STOP_BYTES} bytes together can be matched"
            )
        self._set(stop_strings=tuple(stop_strings))

    def set_guidance(self, type: str, data: str) -> None:
        """Hold the answer to a grammar: ``json_schema``, ``regex`` or ``lark_grammar``, ``choice`` or ``llguidance``.

        Raises:
            OptionError: There is no such type.
            GrammarError: The data is none of that type. What only the model's tokenizer shows is raised when the turn
                begins.
        """
        grammar = grammar_of(type, data, fast_forward=False)
        if grammar is None:
            raise OptionError("guidance is a type and data, got empty texts; clear_guidance() ends it")
        self._set(grammar=grammar)

    def clear_guidance(self) -> None:
        """Let the answer be like anything."""
        self._set(grammar=None)

    def reset(self) -> None:
        """Back to the model folder's defaults."""
        self._settings = TurnSettings()

    def _set(self, **changes: object) -> None:
        self._settings = replace(self._settings, **changes)  # pyright: ignore[reportArgumentType] - each value was checked
