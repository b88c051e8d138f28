"""`GenerationOptions`: how `LLM` answers, each value checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from onnxgen.engine.beams.options import BeamOptions
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.checks import check_integer
from onnxgen.engine.sampling.custom import (
    BatchLogitsProcessor,
    LogitsProcessor,
    Sampler,
    check_processors,
    check_sampler,
)
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import OptionError
from onnxgen.facade.option_forms import biases, forced, ids, read_speculation, texts, words
from onnxgen.facade.response_format import HasJsonSchema, read_response_format
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.model_spec import SearchDefaults

SAMPLING_FIELDS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "top_a",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "repetition_penalty",
    "repetition_window",
    "presence_penalty",
    "frequency_penalty",
    "no_repeat_ngram_size",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_window",
    "seed",
)
"""Fields that mean the same as those of `SamplingOptions`."""

_DRAWING_FIELDS = {
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "top_a": 0,
    "typical_p": 1,
    "top_n_sigma": 0,
    "xtc_probability": 0,
    "mirostat": 0,
}
"""Those that say what may be drawn, and where each is off."""


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """How to answer. None takes the model folder's default, or switches off what it has no default for.

    What is drawn, and from what, is said in the order of `SamplingOptions`, which also has each option's source.

    Attributes:
        max_new_tokens: The answer's length at most, in tokens; None is what is left of the context.
        allow_cap: ``max_new_tokens`` may be lowered to what the context leaves, instead of being refused.
        max_prompt_tokens: A prompt of more tokens is refused; None: whatever the context takes.
        min_new_tokens: No end-of-sequence token before the answer has this many tokens.
        n: How many answers to each prompt. They share what is computed of it, and each has a random stream of its
            own; with beams, how many of the best are given.
        temperature: 0 takes the best token each time. A value above 0, or any option that says what may be drawn
            and is not off, switches sampling on, whatever the model folder says.
        top_k: Draw from this many best tokens only; 0 is off.
        top_p: Draw from the fewest best tokens whose probabilities reach this; 1 is off.
        min_p: Draw from tokens at least this times as likely as the best one; 0 is off.
        top_a: Draw from tokens of at least this times the squared probability of the best one; 0 is off.
        typical_p: Draw from the tokens whose surprise is nearest to the expected one; 1 is off.
        top_n_sigma: Draw from tokens within this many standard deviations of the best logit; 0 is off.
        xtc_probability: How often the likeliest tokens are left out, but for the last above ``xtc_threshold``.
        xtc_threshold: Probability from which a token may be left out.
        mirostat: 1 or 2 keep the surprise of the answer near ``mirostat_tau``; 0 is off.
        mirostat_tau: Surprise to keep, in bits.
        mirostat_eta: How fast it is followed.
        repetition_penalty: Above 1 makes tokens that occurred (prompt included) less likely.
        repetition_window: Only so many of the last tokens count for it; 0 for all.
        presence_penalty: Taken from tokens of the answer so far, -2 to 2.
        frequency_penalty: Likewise, for each time they occurred.
        no_repeat_ngram_size: No run of this many tokens twice; 0 is off.
        dry_multiplier: Penalty of tokens that would go on repeating a longer run ("don't repeat yourself"); 0 is off.
        dry_base: By how much it grows with each token of the run.
        dry_allowed_length: Runs up to this many tokens are free.
        dry_window: Only so many of the last tokens count for it; 0 for all.
        dry_breakers: Texts over which no run reaches.
        bad_words: Texts, or sequences of token ids, that must not occur in the answer.
        logit_bias: What is added to the logits of tokens, given as ids or as texts of one token.
        forced_tokens: What the answer begins with: a text, or token ids; a mapping says positions in the answer.
        seed: Makes sampling reproducible: the same answer alone or among others. None: fresh entropy.
        stop: Texts that end the answer; they are not part of it. One text may be given as it is.
        stop_token_ids: Tokens that end the answer; they are not part of it.
        ignore_eos: End-of-sequence tokens do not end the answer.
        deadline_s: Seconds after which an answer ends with what it has.
        logprobs: Also give log probabilities of the answer's tokens, and of this many of the best at each place.
        logprobs_of: ``raw``: of the model's distribution; ``processed``: of the one that was drawn from.
        prompt_logprobs: Likewise of the prompt's tokens; always raw.
        num_beams: Above 1 searches for the likeliest answer with so many beams, and draws nothing.
        num_beam_groups: Groups of beams that are kept apart by ``diversity_penalty``.
        diversity_penalty: Taken from tokens that an earlier group chose at the same place.
        length_penalty: Exponent of the length that a beam's score is divided by; above 0 favours longer answers.
        early_stopping: With beams: True ends with the first ``num_beams`` answers, False when no better one is
            likely, "never" when no better one is possible.
        adapter: Name of a loaded adapter.
        response_format: What the answer must look like: a `Grammar`, a mapping in OpenAI's form, or a pydantic model; see
            `read_response_format`. Reasoning before the answer, where the model marks it, is free.
        speculation: How tokens are guessed ahead, so that answers come sooner: a `Speculation`, or the name of one of its
            methods, such as ``prompt_lookup``. None: as the engine is configured.
        logits_processors: Change logits before a token is chosen, see `LogitsProcessor` and `BatchLogitsProcessor`.
        sampler: Chooses the tokens instead of all of the above, see `Sampler`.
    """

    max_new_tokens: int | None = None
    allow_cap: bool = False
    max_prompt_tokens: int | None = None
    min_new_tokens: int = 0
    n: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_a: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repetition_penalty: float | None = None
    repetition_window: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_window: int | None = None
    dry_breakers: Sequence[str] = ("\n", ":", '"', "*")
    bad_words: Sequence[str | Sequence[int]] = ()
    logit_bias: Mapping[int | str, float] | None = None
    forced_tokens: str | Sequence[int] | Mapping[int, int] = ()
    seed: int | None = None
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    deadline_s: float | None = None
    logprobs: int | None = None
    logprobs_of: Literal["raw", "processed"] = "raw"
    prompt_logprobs: int | None = None
    num_beams: int | None = None
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    adapter: str | None = None
    response_format: Grammar | Mapping[str, Any] | HasJsonSchema | str | None = None
    speculation: Speculation | str | None = None
    logits_processors: Sequence[LogitsProcessor | BatchLogitsProcessor] = ()
    sampler: Sampler | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        for name in ("stop", "dry_breakers"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        object.__setattr__(self, "stop_token_ids", ids("stop_token_ids", self.stop_token_ids))
        object.__setattr__(self, "bad_words", words(self.bad_words))
        object.__setattr__(self, "logit_bias", biases(self.logit_bias))
        object.__setattr__(self, "forced_tokens", forced(self.forced_tokens))
        object.__setattr__(self, "response_format", read_response_format(self.response_format))
        object.__setattr__(self, "speculation", read_speculation(self.speculation))
        check_processors("logits_processors", self.logits_processors)
        check_sampler(self.sampler)
        check_integer("min_new_tokens", self.min_new_tokens, low=0)
        if self.max_prompt_tokens is not None:
            check_integer("max_prompt_tokens", self.max_prompt_tokens, low=1)
        if self.max_new_tokens is not None:
            check_integer(
                "max_new_tokens", self.max_new_tokens, low=0 if self.prompt_logprobs is not None else 1
            )
            if self.min_new_tokens > self.max_new_tokens:
                raise OptionError(
                    f"min_new_tokens is {self.min_new_tokens}, more than max_new_tokens {self.max_new_tokens}"
                )
        if self.adapter is not None and not (isinstance(self.adapter, str) and self.adapter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"adapter must be the name of a loaded adapter, got {self.adapter!r:.60}")
        SamplingOptions(
            **self.asked_sampling(), temperature=1.0 if self.temperature is None else self.temperature
        )
        EngineRequest([0], **self.asked_of_engine())
        self._check_beams()

    def asked_sampling(self) -> dict[str, Any]:
        """What was said for fields of `SamplingOptions`, but for the temperature and what a tokenizer must read."""
        return {
            name: value
            for name in SAMPLING_FIELDS
            if name != "temperature" and (value := getattr(self, name)) is not None
        }

    def asked_of_engine(self) -> dict[str, Any]:
        """What was said for fields of `EngineRequest`, but for prompt, sampling and lengths."""
        return {
            "n": self.n,
            "allow_cap": self.allow_cap,
            "ignore_eos": self.ignore_eos,
            "stop_token_ids": self.stop_token_ids,
            "deadline_s": self.deadline_s,
            "logprobs": self.logprobs,
            "logprobs_of": self.logprobs_of,
            "prompt_logprobs": self.prompt_logprobs,
            "adapter": self.adapter,
            "speculation": self.speculation,
            "processors": tuple(self.logits_processors),
            "sampler": self.sampler,
        }

    @property
    def grammar(self) -> Grammar | None:
        """What ``response_format`` says."""
        return self.response_format if isinstance(self.response_format, Grammar) else None

    def drawing_options(self) -> list[str]:
        """Names of the options that switch sampling on, as far as they were given and are not off."""
        filters = [name for name, off in _DRAWING_FIELDS.items() if getattr(self, name) not in (None, off)]
        return ["temperature", *filters] if self.temperature else filters

    def with_changes(
        self, changes: Mapping[str, Any], *, also_known: Sequence[str] = ()
    ) -> GenerationOptions:
        """These options with some of them changed.

        Args:
            changes: By name.
            also_known: Names of other options that the caller takes, for the hint at what an unknown one may mean.

        Raises:
            OptionError: An option is unknown or out of range.
        """
        own = [field.name for field in fields(self)]
        for name in changes:
            if name not in own:
                known = [*own, *also_known]
                raise OptionError(
                    f"unknown generation option {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"
                )
        return replace(self, **changes)

    def _check_beams(self) -> None:
        if self.num_beams is not None:
            check_integer("num_beams", self.num_beams, low=1)
        if self.num_beams is None or self.num_beams == 1:
            told = {
                "num_beam_groups": 1,
                "diversity_penalty": 0,
                "length_penalty": None,
                "early_stopping": None,
            }
            for name, default in told.items():
                if getattr(self, name) != default:
                    raise OptionError(
                        f"{name}={getattr(self, name)!r} is about beams; set num_beams above 1 too"
                    )
            return
        if drawing := self.drawing_options():
            raise OptionError(
                f"{drawing[0]}={getattr(self, drawing[0])!r} was given together with num_beams={self.num_beams}; "
                "beams take the likeliest answers and draw nothing, leave one of the two out"
            )
        self.beams(SearchDefaults())

    def beams(self, search: SearchDefaults) -> BeamOptions | None:
        """What options and a model folder's defaults say about beams; None: there are none.

        Raises:
            OptionError: A value is out of range, or two contradict each other.
        """
        num_beams = self.num_beams
        if num_beams is None:
            num_beams = 1 if self.drawing_options() else search.num_beams
        if num_beams == 1:
            return None
        if self.n > num_beams:
            raise OptionError(f"n={self.n} answers need as many beams, num_beams is {num_beams}")
        return BeamOptions(
            num_beams=num_beams,
            num_return_sequences=self.n,
            num_beam_groups=self.num_beam_groups,
            diversity_penalty=self.diversity_penalty,
            length_penalty=search.length_penalty if self.length_penalty is None else self.length_penalty,
            early_stopping=search.early_stopping if self.early_stopping is None else self.early_stopping,
        )


def changed_options(
    options: object, changes: Mapping[str, Any], *, also_known: Sequence[str] = ()
) -> GenerationOptions:
    """Options as a caller gave them, None for the model folder's, with some of them changed.

    Args:
        options: The options.
        changes: By name.
        also_known: See `GenerationOptions.with_changes`.

    Raises:
        OptionError: They are something else, or an option is unknown or out of range.
    """
    if options is None:
        options = GenerationOptions()
    if not isinstance(options, GenerationOptions):
        raise OptionError(
            f"options must be GenerationOptions, got {options!r:.60}; single options are given by name"
        )
    return options.with_changes(changes, also_known=also_known)
