"""Arguments as JSON text of an object, whatever a format writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from onnxgen.preprocess.tool_calls.json_scanner import NUMBER, is_json
from onnxgen.preprocess.tool_calls.literals import json_string, literal

_MAX_SCHEMAS = 64
"""So many schemas are looked at to find the types of one value; a schema may refer to itself."""
_TYPE_OF = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def object_text(text: str | None) -> str | None:
    """Arguments that a model wrote as JSON.

    An object stays as it is, to the letter. Nothing, null and an empty string are an object without members.
    A string that holds an object is that object.

    Args:
        text: JSON text of a value, which is not checked again; None: there is none.

    Returns:
        None for anything else.
    """
    if text is None or text == "null":
        return "{}"
    if text.startswith('"'):
        inner: str = json.loads(text).strip() or "{}"
        return inner if is_json(inner, "{") else None
    return text if text.startswith("{") else None


def typed_value(text: str, schema: Any, root: Mapping[str, Any]) -> str:
    """JSON text of a value that was written without quotes.

    Of the types that the schema allows, in its order and strings last, the first that the text can be
    counts; ``True`` is a boolean, ``None`` is null, an object or array may be written in Python's way. A
    text that can be none of them, and one whose schema allows strings only, is a string. Without a word
    on types only objects and arrays are no strings.

    Args:
        text: The value.
        schema: JSON Schema of the value.
        root: The schema that references refer to.
    """
    schemas = list(_schemas(schema, root))
    allowed = [value for found in schemas for value in _allowed(found)]
    if text in (value for value in allowed if isinstance(value, str)):
        return json_string(text)
    types = [name for found in schemas for name in _types(found)]
    types = types or [_TYPE_OF[type(value)] for value in allowed if type(value) in _TYPE_OF]
    for name in types or ["object", "array"]:
        value = _as_type(text.strip(), name)
        if value is not None:
            return value
    return json_string(text)


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Schemas of the members of an object, in order, also those that alternatives and references add."""
    result: dict[str, Any] = {}
    for found in _schemas(schema, schema):
        properties = found.get("properties")
        if isinstance(properties, Mapping):
            result = {**properties, **result}
    return result


def json_value(text: str) -> str | None:
    """A value that the format says is JSON; None if it is not."""
    text = text.strip()
    return text if is_json(text) else _python(text)


def _schemas(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema and the alternatives and references in it, each where it stands."""
    left = [schema]
    for _ in range(_MAX_SCHEMAS):
        if not left:
            return
        found = left.pop()
        if not isinstance(found, Mapping):
            continue
        found = cast("Mapping[str, Any]", found)
        yield found
        inner = [_referenced(found["$ref"], root)] if "$ref" in found else []
        for key in ("allOf", "anyOf", "oneOf"):
            options = found.get(key)
            inner += cast("list[Any]", options) if isinstance(options, list) else []
        left += reversed(inner)


def _referenced(reference: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for key in reference[1:].split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast("Mapping[str, Any]", found).get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(key)]
        else:
            return None
    return found


def _allowed(schema: Mapping[str, Any]) -> list[Any]:
    values = schema.get("enum")
    listed = list(cast("list[Any]", values)) if isinstance(values, list) else []
    return listed + ([schema["const"]] if "const" in schema else [])


def _types(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type")
    types = [named] if isinstance(named, str) else cast("list[Any]", named) if isinstance(named, list) else []
    if schema.get("nullable") is True:
        types = [*types, "null"]
    if not types and "properties" in schema:
        return ["object"]
    if not types and "items" in schema:
        return ["array"]
    return [name for name in types if isinstance(name, str) and name != "string"]


def _as_type(text: str, name: str) -> str | None:
    match name:
        case "integer":
            whole, point, fraction = text.partition(".")
            is_whole = NUMBER.fullmatch(text) and "e" not in text.lower() and not fraction.strip("0")
            return whole if is_whole and point else text if is_whole else None
        case "number":
            return text if NUMBER.fullmatch(text) else None
        case "boolean":
            return text.lower() if text.lower() in ("true", "false") else None
        case "null":
            return "null" if text.lower() in ("null", "none") else None
        case "object" | "array":
            opening = "{" if name == "object" else "["
            if is_json(text, opening):
                return text
            value = _python(text) if text.startswith(opening) else None
            return value if value is not None and value.startswith(opening) else None
        case _:
            return None


def _python(text: str) -> str | None:
    try:
        return literal(text)
    except ValueError:
        return None
