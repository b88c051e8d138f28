"""`sampling_for`: what generation options mean together with a model folder's defaults and its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import MetadataError, OptionError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.params import sampling_from_search
from onnxgen.metadata.model_spec import SearchDefaults

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


def sampling_for(
    options: GenerationOptions,
    search: SearchDefaults,
    *,
    prompt_tokens: int,
    tokenizer: Tokenizer | None = None,
) -> SamplingOptions:
    """What options and a model folder's defaults mean together.

    Args:
        options: As asked for.
        search: The folder's defaults.
        prompt_tokens: Length of the prompt.
        tokenizer: Reads options that are given as texts; without one they are refused.

    Raises:
        MetadataError: One of the folder's defaults is out of range.
        OptionError: A text given for one token is not one.
    """
    try:
        defaults = sampling_from_search(search)
    except OptionError as cause:
        raise MetadataError(
            f"the model folder's defaults for search: {cause}; mend its genai_config.json"
        ) from cause
    asked = options.asked_sampling()
    if options.temperature is not None:
        asked["temperature"] = options.temperature
    elif not search.do_sample and options.drawing_options():
        asked["temperature"] = search.temperature
    return replace(
        defaults,
        min_length=_min_length(options, search, prompt_tokens),
        **asked,
        **_read(options, tokenizer),
    )


def _min_length(options: GenerationOptions, search: SearchDefaults, prompt_tokens: int) -> int:
    return max(search.min_length, prompt_tokens + options.min_new_tokens if options.min_new_tokens else 0)


def _read(options: GenerationOptions, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Options whose texts only a tokenizer can read."""
    read: dict[str, Any] = {}
    if options.dry_multiplier:
        read["dry_breakers"] = _needed(tokenizer, "dry_breakers").ids_holding(options.dry_breakers)
    if options.bad_words:
        read["bad_words"] = tuple(ids for word in options.bad_words for ids in _spellings(word, tokenizer))
    if options.logit_bias:
        read["logit_bias"] = {
            token if isinstance(token, int) else _one_token(token, tokenizer): bias
            for token, bias in options.logit_bias.items()
        }
    forced = options.forced_tokens
    if forced:
        read["forced_tokens"] = (
            _needed(tokenizer, "forced_tokens").encode(forced) if isinstance(forced, str) else forced
        )
    return read


def _spellings(word: str | Sequence[int], tokenizer: Tokenizer | None) -> list[tuple[int, ...]]:
    """The tokens of a text at the beginning of a line and within one."""
    if not isinstance(word, str):
        return [tuple(word)]
    encode = _needed(tokenizer, "bad_words").encode
    return list(dict.fromkeys(tuple(encode(text)) for text in (word, " " + word.lstrip(" "))))


def _one_token(text: str, tokenizer: Tokenizer | None) -> int:
    ids = _needed(tokenizer, "logit_bias").encode(text)
    if len(ids) != 1:
        raise OptionError(
            f"logit_bias names {text!r:.60}, which is {len(ids)} tokens to this model; name texts of one token, or ids"
        )
    return ids[0]


def _needed(tokenizer: Tokenizer | None, option: str) -> Tokenizer:
    if tokenizer is None:
        raise OptionError(f"{option} was given as text, and there is no tokenizer to read it; give token ids")
    return tokenizer
