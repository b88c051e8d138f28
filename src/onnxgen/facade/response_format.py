"""`response_format`: what an answer must look like, in the forms callers know, as one `Grammar`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean


class HasJsonSchema(Protocol):
    """A class that knows its JSON Schema, as pydantic's models do."""

    def model_json_schema(self) -> Mapping[str, Any]:
        """The schema."""
        ...


_TYPES = ("text", "json_object", "json_schema", "regex", "lark", "choice", "llguidance")


def read_response_format(value: object) -> Grammar | None:
    """What an answer must look like; None: like anything.

    Args:
        value: A `Grammar`; None; the name of a type that needs no more (``text``, ``json_object``); a class with
            ``model_json_schema``, as pydantic's models are; or a mapping: OpenAI's ``{"type": "json_schema",
            "json_schema": {"name": ..., "schema": {...}}}``, or likewise with what the type is called as key, such as
            ``{"type": "regex", "regex": "[0-9]+"}`` or ``{"type": "choice", "choice": ["yes", "no"]}``.

    Raises:
        OptionError: It is something else, or its parts are of wrong types.
        GrammarError: It can be read, and is no grammar.
    """
    if value is None or isinstance(value, Grammar):
        return value
    if isinstance(value, str):
        value = {"type": value}
    elif isinstance(value, type) and callable(schema := getattr(value, "model_json_schema", None)):
        return Grammar.json_schema(cast("Mapping[str, Any]", schema()))
    if not isinstance(value, Mapping):
        raise OptionError(
            f"response_format must be a Grammar, a mapping with a type, or a pydantic model, got {value!r:.80}"
        )
    given = cast("Mapping[str, Any]", value)
    kind = given.get("type")
    if kind not in _TYPES:
        hint = did_you_mean(kind, _TYPES) if isinstance(kind, str) else ""
        raise OptionError(
            f"response_format has the type {kind!r:.60}{hint}; the types are {', '.join(_TYPES)}"
        )
    if kind == "text":
        return None
    if kind == "json_object":
        return Grammar.json_object()
    if kind not in given:
        raise OptionError(f"response_format of type {kind!r} needs an entry {kind!r}")
    own = given[kind]
    if kind == "json_schema":
        return Grammar.json_schema(_schema_of(own))
    make = {
        "regex": Grammar.regex,
        "lark": Grammar.lark,
        "choice": Grammar.choice,
        "llguidance": Grammar.llguidance,
    }
    return make[kind](own)


def _schema_of(own: Any) -> Any:
    """The schema of OpenAI's form, which wraps it together with a name; a plain schema is taken too."""
    if not isinstance(own, Mapping):
        return own
    wrapped = cast("Mapping[str, Any]", own)
    if "schema" in wrapped and not {"type", "properties", "$ref", "anyOf", "enum", "const"} & wrapped.keys():
        return wrapped["schema"]
    return wrapped
