"""`generation_options`: what a request, a model's entry and the operator say about how to answer, as `GenerationOptions`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from onnxgen.errors import GrammarError, OptionError
from onnxgen.facade.generation_options import SAMPLING_FIELDS, GenerationOptions
from onnxgen.server.errors import ApiError
from onnxgen.server.schemas.generation import GenerationFields
from onnxgen.server.settings import ServerSettings

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

_SAME = (
    "n",
    *SAMPLING_FIELDS,
    "dry_breakers",
    "bad_words",
    "forced_tokens",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "deadline_s",
    "logprobs_of",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "length_penalty",
    "early_stopping",
    "adapter",
    "speculation",
)
"""Fields that mean the same as the options of their names."""
_NO_BEAMS = {"num_beams": 1}
"""Also where a model's folder says otherwise: engines in processes of their own search none."""
_TEXTS = ("stop", "bad_words", "dry_breakers", "forced_tokens")
MAX_TEXTS_SIZE = 32 * 1024
"""Characters, or token ids, that each of these options may have; a few hundredths of a second of work."""
_TOKEN_ID = re.compile(r"[0-9]{1,10}")


def generation_options(
    fields: GenerationFields, *, model: LoadedModel, settings: ServerSettings
) -> GenerationOptions:
    """How to answer a request.

    Args:
        fields: What it says.
        model: Who answers: what its entry says holds for what the request leaves open.
        settings: What the operator allows.

    Raises:
        ApiError: 400, naming the field: a value is out of range, or more than the operator allows.
    """
    asked = {name: value for name in _SAME if (value := getattr(fields, name)) is not None}
    asked |= _renamed(fields)
    if (grammar := _response_format(fields)) is not None:
        asked["response_format"] = grammar
    if settings.request_timeout_s is not None:
        asked["deadline_s"] = min(
            asked.get("deadline_s", settings.request_timeout_s), settings.request_timeout_s
        )
    if settings.max_prompt_tokens is not None:
        asked["max_prompt_tokens"] = settings.max_prompt_tokens
    length_field, length = fields.length()
    if length is not None:
        asked["max_new_tokens"] = length
    logprobs_field, logprobs = fields.num_logprobs()
    if logprobs is not None:
        asked["logprobs"] = logprobs
    _check_limits(asked, settings, length_field=length_field, logprobs_field=logprobs_field)
    defaults: Mapping[str, Any] = model.entry.defaults
    if "max_new_tokens" not in asked and settings.max_output_tokens is not None:
        usual = defaults.get("max_new_tokens", settings.max_output_tokens)
        asked |= {"max_new_tokens": min(usual, settings.max_output_tokens)}
    named = {"max_new_tokens": length_field, "min_new_tokens": "min_tokens", "logprobs": logprobs_field}
    try:
        return GenerationOptions().with_changes(
            {**_NO_BEAMS, **defaults, **asked, "allow_cap": length is None}
        )
    except OptionError as error:
        raise _named(error, asked, named) from error


def texts_size(options: GenerationOptions) -> int:
    """Characters, or token ids, of options that are read before a request is asked, like its prompt."""
    breakers = (
        len(options.dry_breakers) * 1024 if options.dry_multiplier else 0
    )  # the whole vocabulary is looked at
    return sum(_size(getattr(options, name)) for name in _TEXTS) + len(options.logit_bias or ()) + breakers


def _size(value: Any) -> int:
    """Characters of texts and numbers of token ids together."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_size, cast("Sequence[Any]", value))) if isinstance(value, Sequence) else 1


def _renamed(fields: GenerationFields) -> dict[str, Any]:
    """What has another name here, or another value for off."""
    asked: dict[str, Any] = {}
    if fields.min_tokens is not None:
        asked["min_new_tokens"] = fields.min_tokens
    if fields.seed == -1:
        asked["seed"] = None
    for name in ("top_k", "top_n_sigma"):
        if getattr(fields, name) == -1:
            asked[name] = 0
    if fields.logit_bias is not None:
        asked["logit_bias"] = {
            int(token) if _TOKEN_ID.fullmatch(token) else token: bias
            for token, bias in fields.logit_bias.items()
        }
    for name, window, penalty, off in (
        ("repeat_last_n", "repetition_window", "repetition_penalty", 1.0),
        ("dry_penalty_last_n", "dry_window", "dry_multiplier", 0.0),
    ):
        last: int | None = getattr(fields, name)
        if last == 0:
            asked[penalty] = off
        elif last is not None:
            asked[window] = 0 if last == -1 else last
    return asked


def _response_format(fields: GenerationFields) -> Mapping[str, Any] | str | None:
    """What the answer must look like, in whichever words it is said.

    Raises:
        ApiError: It is said twice, or in words that are not read here.
    """
    if fields.grammar is not None:
        raise ApiError(
            400,
            "grammar: grammars in GBNF are not read here; give response_format {'type': 'lark', 'lark': ...} or a "
            "JSON schema",
            param="grammar",
        )
    said: dict[str, Mapping[str, Any] | str] = {}
    if fields.response_format is not None:
        said["response_format"] = fields.response_format
    if fields.json_schema is not None:
        said["json_schema"] = {"type": "json_schema", "json_schema": fields.json_schema}
    if fields.guided_json is not None:
        said["guided_json"] = {
            "type": "json_schema",
            "json_schema": _schema(fields.guided_json, "guided_json"),
        }
    if fields.guided_regex is not None:
        said["guided_regex"] = {"type": "regex", "regex": fields.guided_regex}
    if fields.guided_choice is not None:
        said["guided_choice"] = {"type": "choice", "choice": fields.guided_choice}
    if fields.guided_grammar is not None:
        said["guided_grammar"] = {"type": "lark", "lark": fields.guided_grammar}
    if fields.structured_outputs is not None:
        said["structured_outputs"] = _structured(fields.structured_outputs)
    if len(said) > 1:
        raise ApiError(
            400, f"{' and '.join(said)} each say what the answer must look like; give one", param=min(said)
        )
    return next(iter(said.values()), None)


def _structured(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The form of vLLM."""
    kinds = {
        "json": "json_schema",
        "json_object": "json_object",
        "regex": "regex",
        "choice": "choice",
        "grammar": "lark",
    }
    found = [name for name in kinds if given.get(name) is not None]
    if len(found) != 1:
        raise ApiError(
            400,
            f"structured_outputs must have one of {', '.join(kinds)}, got {len(found)} of them",
            param="structured_outputs",
        )
    kind, value = kinds[found[0]], given[found[0]]
    if kind == "json_schema":
        value = _schema(value, "structured_outputs.json")
    return {"type": kind, kind: value}


def _schema(given: Any, place: str) -> Any:
    """A schema that may be given as its text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError as cause:
        raise ApiError(400, f"{place} is no JSON: {cause}", param=place) from cause


def _check_limits(
    asked: Mapping[str, Any], settings: ServerSettings, *, length_field: str, logprobs_field: str
) -> None:
    for option, field, most in (
        ("n", "n", settings.max_answers),
        ("max_new_tokens", length_field, settings.max_output_tokens),
        ("logprobs", logprobs_field, settings.max_logprobs),
    ):
        value = asked.get(option)
        if value is not None and most is not None and value > most:
            raise ApiError(400, f"{field} is {value}; this server allows at most {most}", param=field)
    for option in _TEXTS:
        if (size := _size(asked.get(option, ()))) > MAX_TEXTS_SIZE:
            unit = "characters or token ids"
            raise ApiError(
                400, f"{option} has {size} {unit}; this server allows at most {MAX_TEXTS_SIZE}", param=option
            )


def _named(error: OptionError, asked: Mapping[str, Any], named: Mapping[str, str]) -> ApiError:
    """The error in the client's words."""
    message = str(error)
    if isinstance(error, GrammarError):
        return ApiError(400, message, param="response_format", code="invalid_grammar")
    words = re.findall(r"[a-z_]+", message)
    option = next((word for word in words if word in asked), None)
    if option is None:
        return ApiError(400, message)
    field = named.get(option, option)
    return ApiError(400, message.replace(option, field, 1), param=field)
