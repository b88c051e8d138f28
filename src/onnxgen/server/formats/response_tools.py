"""Tools, the choice among them, and the form of the text, from the Responses API's words to chat completions'.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError
from onnxgen.server.formats.fields import list_at, mapping_at, text_at

Tool = dict[str, Any]


def chat_tools(given: Sequence[Any]) -> list[Tool]:
    """Definitions of functions as chat completions has them.

    Raises:
        ApiError: One is no function: this server runs no tools of its own.
    """
    tools: list[Tool] = []
    for index, entry in enumerate(given):
        place = f"tools[{index}]"
        tool = mapping_at(place, entry)
        if tool.get("type") != "function":
            raise ApiError(
                400,
                f"{place}.type is {tool.get('type')!r:.60}; this server runs no tools of its own and offers the model "
                "functions only, which the client calls",
                param=f"{place}.type",
            )
        text_at(f"{place}.name", tool.get("name"), empty=False)
        names = ("name", "description", "parameters", "strict")
        function = {name: tool[name] for name in names if tool.get(name) is not None}
        tools.append({"type": "function", "function": function})
    return tools


def chat_tool_choice(choice: object, tools: list[Tool]) -> tuple[Any, list[Tool]]:
    """Which tools may or must be called, and the tools that the model is told of.

    Raises:
        ApiError: The choice is none of the API's, or names a tool that is not there.
    """
    if choice is None:
        return "auto", tools
    if isinstance(choice, str) and choice in ("none", "auto", "required"):
        return choice, tools
    if isinstance(choice, Mapping):
        if choice.get("type") == "function":
            name = text_at("tool_choice.name", choice.get("name"), empty=False)
            _named(tools, name, "tool_choice.name")
            return {"type": "function", "function": {"name": name}}, tools
        if choice.get("type") == "allowed_tools":
            return _allowed(choice, tools)
    raise ApiError(
        400,
        f"tool_choice is {choice!r:.80}; expected 'none', 'auto', 'required', {{'type': 'function', 'name': ...}} or "
        "{'type': 'allowed_tools', 'mode': ..., 'tools': [...]}",
        param="tool_choice",
    )


def chat_response_format(given: object) -> dict[str, Any] | None:
    """What ``text.format`` asks of the text, as ``response_format`` of chat completions.

    Raises:
        ApiError: It is no format of the API.
    """
    if given is None:
        return None
    form = mapping_at("text.format", given)
    match form.get("type"):
        case "text":
            return None
        case "json_object":
            return {"type": "json_object"}
        case "json_schema":
            schema = mapping_at("text.format.schema", form.get("schema"))
            names = ("name", "description", "strict")
            told = {name: form[name] for name in names if form.get(name) is not None}
            return {"type": "json_schema", "json_schema": {**told, "schema": schema}}
        case kind:
            raise ApiError(
                400,
                f"text.format.type is {kind!r:.60}; the formats are text, json_object and json_schema",
                param="text.format.type",
            )


def _allowed(choice: Mapping[str, Any], tools: list[Tool]) -> tuple[Any, list[Tool]]:
    mode = choice.get("mode")
    if mode not in ("auto", "required"):
        raise ApiError(
            400,
            f"tool_choice.mode is {mode!r:.60}, expected 'auto' or 'required'",
            param="tool_choice.mode",
        )
    allowed: list[Tool] = []
    for index, entry in enumerate(list_at("tool_choice.tools", choice.get("tools"), of="tools")):
        place = f"tool_choice.tools[{index}]"
        name = text_at(f"{place}.name", mapping_at(place, entry).get("name"), empty=False)
        allowed.append(_named(tools, name, f"{place}.name"))
    return mode, allowed


def _named(tools: Sequence[Tool], name: str, place: str) -> Tool:
    names = [tool["function"]["name"] for tool in tools]
    if name not in names:
        hint = did_you_mean(name[:128], names)
        raise ApiError(
            400, f"{place} is {name!r:.80}, which is not among the tools of the request{hint}", param=place
        )
    return tools[names.index(name)]
