"""Calls that are written as JSON objects."""

from __future__ import annotations

import json
from typing import NoReturn

from onnxgen.preprocess.tool_calls.arguments import object_text
from onnxgen.preprocess.tool_calls.layouts import JsonCall
from onnxgen.preprocess.tool_calls.scanners import NoCallError


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# Values are looked at as text only; their numbers may be of any size.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
_BLANKS = " \t\n\r"


def members(text: str) -> dict[str, str]:
    """The members of a JSON object: names, and values as they are written.

    Args:
        text: JSON text of an object; it is not checked again.
    """
    result: dict[str, str] = {}
    pos = _skip(text, 1)
    while text[pos] != "}":
        key, pos = _DECODER.raw_decode(text, pos)
        start = _skip(text, _skip(text, pos) + 1)
        _, pos = _DECODER.raw_decode(text, start)
        result[key] = text[start:pos]
        pos = _skip(text, pos)
        if text[pos] == ",":
            pos = _skip(text, pos + 1)
    return result


def read_json_call(text: str, layout: JsonCall) -> tuple[str, str, str | None]:
    """Name, arguments and id of a call.

    Args:
        text: JSON text of an object.
        layout: What its keys are.

    Raises:
        NoCallError: It is no call.
    """
    found = members(text)
    if layout.name_is_key:
        if len(found) != 1:
            raise NoCallError
        [(name, value)] = found.items()
        return name, _arguments(value), None
    if found.get("function", "").startswith("{"):
        found = members(found["function"]) | {k: v for k, v in found.items() if k in ("id", layout.id_key)}
    name = next((found[key] for key in (layout.name_key, "name", "function") if key in found), "")
    if not name.startswith('"'):
        raise NoCallError
    keys = (layout.arguments_key, "arguments", "parameters")
    value = next((found[key] for key in keys if key in found), None)
    own_id = found.get(layout.id_key or "id", "")
    return json.loads(name), _arguments(value), json.loads(own_id) if own_id.startswith('"') else None


def _arguments(value: str | None) -> str:
    arguments = object_text(value)
    if arguments is None:
        raise NoCallError
    return arguments


def _skip(text: str, pos: int) -> int:
    while text[pos] in _BLANKS:
        pos += 1
    return pos
