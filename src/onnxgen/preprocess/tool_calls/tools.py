"""`ToolDefinition` and `ToolCall`: what may be called, and what was."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.errors import OptionError
from onnxgen.foundations.json_text import json_kind

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_MAX_NESTING = 100
_HALF_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A function that a model may call.

    Attributes:
        name: Letters, digits and ``_ . : / -``, at most 128 characters.
        description: For the model; may be empty.
        parameters: JSON Schema of the arguments, that of an object.
        strict: The arguments have to follow the schema to the letter.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made.

    Attributes:
        id: Tells the calls of a conversation apart.
        name: Function to call.
        arguments: Its arguments: JSON text of an object.
    """

    id: str
    name: str
    arguments: str


def read_tools(tools: Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Read the tools of a request.

    Args:
        tools: Mappings ``{"type": "function", "function": {"name": ..., "description": ..., "parameters": ...,
            "strict": ...}}``, or the inner mapping alone, with or without ``type``. Only the name has to be
            there.

    Raises:
        OptionError: One is something else, or two have the same name; the message says which, and what of it.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
        raise OptionError(f"tools must be a list of mappings, got {tools!r:.60}")
    result: list[ToolDefinition] = []
    index_by_name: dict[str, int] = {}
    for index, tool in enumerate(tools):
        definition = _read_tool(tool, f"tools[{index}]")
        first = index_by_name.setdefault(definition.name, index)
        if first != index:
            raise OptionError(
                f"tools[{first}] and tools[{index}] are both named {definition.name!r}; rename one of them"
            )
        result.append(definition)
    return tuple(result)


def _read_tool(tool: Any, place: str) -> ToolDefinition:
    if isinstance(tool, ToolDefinition):
        return tool
    outer = _mapping(tool, place)
    if (kind := outer.get("type", "function")) != "function":
        raise OptionError(f"{place}.type is {kind!r:.60}; only 'function' is supported")
    if "function" in outer:
        place += ".function"
        outer = _mapping(outer["function"], place)
    name = outer.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"{place}.name is {'missing' if name is None else repr(name)[:60]}; "
            "it must be 1 to 128 letters, digits and _ . : / -"
        )
    description = outer.get("description")
    if not isinstance(description, str | None):
        raise OptionError(f"{place}.description is {json_kind(description)}, expected a string")
    _check_json(description, f"{place}.description")
    strict = outer.get("strict")
    if not isinstance(strict, bool | None):
        raise OptionError(f"{place}.strict is {json_kind(strict)}, expected true or false")
    return ToolDefinition(
        name, description or "", _parameters(outer.get("parameters"), f"{place}.parameters"), bool(strict)
    )


def _parameters(value: Any, place: str) -> Mapping[str, Any]:
    if value is None:
        return {"type": "object", "properties": {}}
    schema = _mapping(value, place)
    if (kind := schema.get("type", "object")) != "object":
        raise OptionError(f"{place}.type is {kind!r:.60}; the arguments of a function are an 'object'")
    if not isinstance(properties := schema.get("properties", {}), Mapping):
        raise OptionError(f"{place}.properties is {json_kind(properties)}, expected an object")
    _check_json(schema, place)
    return schema


def _check_json(value: Any, place: str) -> None:
    """Refuse what Python holds but JSON text in UTF-8 does not."""
    todo: list[tuple[str, Any, int]] = [(place, value, 0)]
    while todo:
        place, value, depth = todo.pop()
        if depth > _MAX_NESTING:
            raise OptionError(f"{place:.100}...: nested more than {_MAX_NESTING} deep; flatten it")
        if isinstance(value, float) and not math.isfinite(value):
            raise OptionError(f"{place} is {value}, which is no JSON number")
        if isinstance(value, str) and _HALF_PAIR.search(value):
            raise OptionError(f"{place} has half a surrogate pair, which is no character")
        if isinstance(value, Mapping):
            for key, item in cast("Mapping[Any, Any]", value).items():
                if _HALF_PAIR.search(str(key)):
                    raise OptionError(f"{place} has a key with half a surrogate pair, which is no character")
                todo.append((f"{place}.{key}", item, depth + 1))
        elif isinstance(value, list | tuple):
            items = cast("Sequence[Any]", value)
            todo += [(f"{place}[{n}]", item, depth + 1) for n, item in enumerate(items)]


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{place} is {json_kind(value)}, expected an object")
    return cast("Mapping[str, Any]", value)
