"""`GeneratorParams`: search options by onnxruntime-genai's names, checked, and what they mean for sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np

from onnxgen.engine.beams.options import BeamOptions
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.sampling.options import (
    MAX_SEED,
    SamplingOptions,
    check_integer,
    check_number,
    check_repetition_penalty,
)
from onnxgen.errors import ContextLengthError, OptionError
from onnxgen.facade.guidance import grammar_of
from onnxgen.facade.model import Model
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.genai_config_run import Speculative
from onnxgen.metadata.model_spec import SearchDefaults

_MAX_ROWS = 32

# name: (kind, lowest, highest)
_SEARCH: Mapping[str, tuple[Literal["bool", "int", "float"], float, float]] = {
    "batch_size": ("int", 1, _MAX_ROWS),
    "chunk_size": ("int", 0, math.inf),
    "diversity_penalty": ("float", 0, math.inf),
    "do_sample": ("bool", 0, 1),
    "early_stopping": ("bool", 0, 1),
    "length_penalty": ("float", -math.inf, math.inf),
    "max_length": ("int", 0, math.inf),
    "min_length": ("int", 0, math.inf),
    "no_repeat_ngram_size": ("int", 0, math.inf),
    "num_beams": ("int", 1, _MAX_ROWS),
    "num_return_sequences": ("int", 1, _MAX_ROWS),
    "past_present_share_buffer": ("bool", 0, 1),
    "random_seed": ("int", -1, MAX_SEED),
    "repetition_penalty": ("float", 0, math.inf),
    "temperature": ("float", 0, math.inf),
    "top_k": ("int", 0, math.inf),
    "top_p": ("float", 0, 1),
}
_SPECULATIVE: Mapping[str, tuple[Literal["bool", "int"], int, int]] = {
    "max_draft_tokens": ("int", 1, 16),
    "ngram_size": ("int", 0, 16),
    "ngram_chained_lookup": ("bool", 0, 1),
    "min_adaptive_k": ("int", 0, 16),
    "cooldown": ("bool", 0, 1),
}


class GeneratorParams:
    """Search options of one generator, beginning with the model folder's.

    Args:
        model: The model that the generator will run.
    """

    def __init__(self, model: Model) -> None:
        self._spec = model.spec
        self._search = model.spec.search
        self._speculative = model.spec.speculative
        self._grammar: Grammar | None = None

    @property
    def search(self) -> SearchDefaults:
        """The options as one value."""
        return self._search

    @property
    def speculative(self) -> Speculative:
        """How tokens are guessed ahead."""
        return self._speculative

    @property
    def grammar(self) -> Grammar | None:
        """What answers must look like."""
        return self._grammar

    def set_search_options(self, **options: bool | float) -> None:
        """Set search options.

        ``max_length`` and ``min_length`` count prompt and answer together. ``random_seed`` -1 draws fresh
        entropy. ``past_present_share_buffer`` True allocates the cache for ``max_length`` tokens at once, False lets it
        grow with the sequences; tokens are the same. ``length_penalty`` and ``early_stopping`` are of beams: with one
        beam they have nothing to act on. With ``diversity_penalty`` above 0 every beam is a group of its own.

        Raises:
            OptionError: An option is unknown, of the wrong type or out of range. Nothing was changed.
        """
        changes = {name: _search_value(name, value) for name, value in options.items()}
        if changes.get("chunk_size") == 0:
            changes["chunk_size"] = None
        self._search = replace(self._search, **changes)

    def get_search_options(self) -> dict[str, bool | float]:
        """All search options; numbers as floats, ``chunk_size`` and ``max_length`` 0 where they are not set."""
        return {
            name: value if isinstance(value, bool) else float(value or 0)
            for name in _SEARCH
            for value in (getattr(self._search, name),)
        }

    def set_guidance(self, type: str, data: str, enable_ff_tokens: bool = False) -> None:
        """Let every answer be one that a grammar describes; two empty texts take that back.

        Tokens that the grammar does not allow are never chosen, whatever else is asked for, and an answer ends only where
        the grammar lets it. What is appended to a sequence is not looked at. An answer that has ended is followed, after
        more was appended, by one that begins anew. Rewinding goes back into the answer as it was: the grammar is where it
        was then, while onnxruntime-genai's would begin anew.

        Args:
            type: ``json_schema``, ``regex``, ``lark_grammar``, ``choice`` (a JSON list of texts) or ``llguidance`` (a
                document of that library's own).
            data: The grammar.
            enable_ff_tokens: Tokens that must follow are appended without asking the model, and run together with the
                next one. Several rows keep step with each other, so there it changes nothing.

        Raises:
            OptionError: One of the two texts is missing, or there is no such type.
            GrammarError: The data is none of that type. Making a `Generator` refuses what only a tokenizer tells.
        """
        self._grammar = grammar_of(type, data, fast_forward=enable_ff_tokens)

    def set_speculative_options(self, **options: float | bool) -> None:
        """Say how tokens are guessed ahead, by a draft model that the folder has, or else by what the sequence repeats.

        Args:
            options: ``max_draft_tokens`` (1 to 16): tokens that are guessed at once. ``ngram_size`` (0, or 2 to 16):
                guesses what came after the last ``ngram_size - 1`` tokens when they came before; 0 is off.
                ``ngram_chained_lookup``: looks again behind each guess. ``min_adaptive_k`` (0 to 16): learns how many
                tokens to guess, from so many on and up to 16; 0 keeps ``max_draft_tokens``. ``cooldown``: a plain step
                after three rounds in which nothing was right.

        Raises:
            OptionError: An option is unknown, of the wrong type or out of range. Nothing was changed.
        """
        changes = {name: _speculative_value(name, value) for name, value in options.items()}
        self._speculative = replace(self._speculative, **changes)

    def get_speculative_options(self) -> dict[str, bool | float]:
        """All options of guessing ahead; numbers as floats."""
        return {
            name: value if isinstance(value, bool) else float(value)
            for name, value in asdict(self._speculative).items()
        }

    def resolve_max_length(self) -> int:
        """``max_length``, or the context's length where it is not set.

        Raises:
            ContextLengthError: It is more than the context.
        """
        limit = self._spec.context_length
        if self._search.max_length > limit:
            raise ContextLengthError(
                f"max_length is {self._search.max_length}, but the model's context is {limit} tokens; "
                f"set max_length to at most {limit}"
            )
        return self._search.max_length or limit

    def check_sampling(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            OptionError: Tokens are drawn, and ``top_k`` is more than there are.
        """
        search, vocab = self._search, self._spec.vocab_size
        if search.top_k > vocab and not sampling_from_search(search).greedy:
            raise OptionError(
                f"top_k must be between 0 and {vocab}, the model's vocabulary, got {search.top_k}; 0 is off"
            )

    def resolve_beams(self) -> BeamOptions | None:
        """What a beam search is asked for; None with one beam.

        With ``diversity_penalty`` every beam is a group of its own, because there is no option for groups.

        Raises:
            OptionError: Options contradict each other.
        """
        search = self._search
        if search.num_beams == 1:
            if search.num_return_sequences > 1:
                raise OptionError(
                    f"num_return_sequences={search.num_return_sequences} needs as many beams, num_beams is 1"
                )
            if search.diversity_penalty:
                raise OptionError(
                    f"diversity_penalty={search.diversity_penalty:g} keeps beams apart, but num_beams is 1; set num_beams "
                    "to at least 2"
                )
            return None
        if not sampling_from_search(search).greedy:
            raise OptionError(
                f"do_sample=True draws tokens, and num_beams={search.num_beams} takes the best ones; set one of the two"
            )
        return BeamOptions(
            num_beams=search.num_beams,
            num_return_sequences=search.num_return_sequences,
            length_penalty=search.length_penalty,
            early_stopping=search.early_stopping,
            num_beam_groups=search.num_beams if search.diversity_penalty else 1,
            diversity_penalty=search.diversity_penalty,
        )


def sampling_from_search(search: SearchDefaults, *, stream: int = 0) -> SamplingOptions:
    """What search options mean for one row.

    As in onnxruntime-genai, ``top_p`` 0 together with a ``top_k`` above 1 means that ``top_p`` is off.

    Args:
        search: The options.
        stream: The row, so that rows that share a seed draw different tokens.
    """
    top_p = 1.0 if search.top_k > 1 and search.top_p == 0 else search.top_p
    return SamplingOptions(
        temperature=search.temperature if search.do_sample else 0.0,
        top_k=search.top_k,
        top_p=top_p,
        repetition_penalty=search.repetition_penalty,
        no_repeat_ngram_size=search.no_repeat_ngram_size,
        min_length=search.min_length,
        seed=None if search.random_seed < 0 else search.random_seed,
        stream=stream,
    )


def _search_value(name: str, value: Any) -> Any:
    if name not in _SEARCH:
        raise OptionError(f"unknown search option {name!r}{did_you_mean(name, _SEARCH)}")
    if name == "repetition_penalty":
        return check_repetition_penalty(value)
    return _checked(name, value, *_SEARCH[name])


def _speculative_value(name: str, value: Any) -> Any:
    if name not in _SPECULATIVE:
        raise OptionError(f"unknown speculative option {name!r}{did_you_mean(name, _SPECULATIVE)}")
    checked = _checked(name, value, *_SPECULATIVE[name])
    if name == "ngram_size" and checked == 1:
        raise OptionError("ngram_size must be 0 (off) or 2 to 16, got 1")
    return checked


def _checked(name: str, value: Any, kind: Literal["bool", "int", "float"], low: float, high: float) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if kind == "bool":
        if not isinstance(value, bool):
            raise OptionError(f"{name} must be True or False, got {value!r}")
        return value
    if kind == "float":
        return check_number(name, value, low=low, high=high)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return check_integer(name, value, low=int(low), high=None if high == math.inf else int(high))
