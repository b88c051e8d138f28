"""Messages as templates want them.

Requests come from many clients and templates disagree about details: whether the content of a message
that only calls tools may be null, whether the arguments of a call are a mapping or JSON text. What a
template wants is found out once by rendering a probe.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.errors import ChatTemplateError
from onnxgen.foundations.json_text import json_kind

_REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")

Render = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
"""Renders messages and tools with one template; raises `ChatTemplateError`."""


@dataclass(frozen=True, slots=True)
class MessageStyle:
    """What a template wants.

    Attributes:
        arguments_as_text: Arguments of tool calls as JSON text instead of a mapping.
        missing_content: Content of an assistant message that only calls tools: None or an empty text.
        takes_parts: Content as a list of parts; else parts of text are joined for it.
    """

    arguments_as_text: bool = False
    missing_content: str | None = ""
    takes_parts: bool = True


def probe_style(render: Render) -> MessageStyle:
    """Find out what a template wants, by rendering a conversation with a tool call."""

    def attempt(arguments: Any, content: str | None) -> str | None:
        try:
            return render(_probe_messages(arguments, content), _PROBE_TOOLS)
        except ChatTemplateError:
            return None

    mapping = attempt({"k7q": "v9x"}, "")
    text = attempt('{"k7q": "v9x"}', "")
    as_text = text is not None and (mapping is None or "'k7q'" in mapping)
    with_none = attempt('{"k7q": "v9x"}' if as_text else {"k7q": "v9x"}, None)
    keeps_none = with_none is not None and "None" not in with_none
    return MessageStyle(
        arguments_as_text=as_text,
        missing_content=None if keeps_none else "",
        takes_parts=_takes_parts(render),
    )


def _takes_parts(render: Render) -> bool:
    try:
        text = render([{"role": "user", "content": [{"type": "text", "text": "k7q"}]}], ())
    except ChatTemplateError:
        return False
    return "'type'" not in text  # a part written as it is


_PROBE_TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "f5n",
            "description": "A probe.",
            "parameters": {
                "type": "object",
                "properties": {"k7q": {"type": "string", "description": "A key."}},
            },
        },
    },
)


def _probe_messages(arguments: Any, content: str | None) -> list[dict[str, Any]]:
    call = {"id": "callid001", "type": "function", "function": {"name": "f5n", "arguments": arguments}}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": content, "tool_calls": [call]},
    ]


def plain_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Copy messages into plain dictionaries, lists and scalars, the only things a template may see.

    Raises:
        ChatTemplateError: A message is not a mapping or has no role.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
        raise ChatTemplateError(
            f"messages must be a list of mappings such as {{'role': 'user', 'content': 'Hello'}}, got {messages!r:.60}"
        )
    result: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        plain = plain_data(message)
        if not isinstance(plain, dict):
            raise ChatTemplateError(f"message {index} is {json_kind(plain)}, expected a mapping with a role")
        plain = cast("dict[str, Any]", plain)
        if not isinstance(plain.get("role"), str):
            raise ChatTemplateError(f"message {index} has no role, or one that is not a text")
        result.append(plain)
    return result


def styled_messages(
    messages: Iterable[Mapping[str, Any]], style: Callable[[], MessageStyle]
) -> list[dict[str, Any]]:
    """Bring plain messages into the form a template wants.

    Args:
        messages: As `plain_messages` gives them.
        style: Asked only when a message has tool calls, or content in parts.

    Raises:
        ChatTemplateError: The arguments of a tool call are not a JSON object.
    """
    return [_styled(message, index, style) for index, message in enumerate(messages)]


def _styled(message: Mapping[str, Any], index: int, style: Callable[[], MessageStyle]) -> dict[str, Any]:
    # A null that clients send for an absent field would be taken for a value by many templates.
    result = {key: value for key, value in message.items() if value is not None}
    reasoning = next((result[key] for key in _REASONING_KEYS if key in result), None)
    if reasoning is not None:
        result = {"thinking": reasoning, **result, "reasoning_content": reasoning}
    calls = result.get("tool_calls")
    if isinstance(calls, list) and calls:
        wanted = style()
        calls = cast("list[Any]", calls)
        result["tool_calls"] = [_styled_call(call, index, as_text=wanted.arguments_as_text) for call in calls]
        result.setdefault("content", wanted.missing_content)
    else:
        result.setdefault("content", "")
    if isinstance(result["content"], list) and not style().takes_parts:
        result["content"] = _joined(cast("list[Any]", result["content"]), index)
    return result


def _joined(parts: list[Any], index: int) -> str:
    """Parts of text as one text, for templates that know no parts."""
    texts: list[str] = []
    for part in parts:
        text: Any = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            kind = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else json_kind(part)
            raise ChatTemplateError(
                f"message {index}: content has a part that is no text ({kind}), and this model's template takes text only"
            )
        texts.append(text)
    return "".join(texts)


def _styled_call(call: Any, index: int, *, as_text: bool) -> Any:
    if not isinstance(call, dict):
        raise ChatTemplateError(f"message {index}: a tool call is {json_kind(call)}, expected an object")
    call = cast("dict[str, Any]", call)
    if isinstance(call.get("function"), dict):
        return {**call, "function": _styled_call(call["function"], index, as_text=as_text)}
    return {**call, "arguments": _styled_arguments(call, index, as_text=as_text)}


def _styled_arguments(call: Mapping[str, Any], index: int, *, as_text: bool) -> Any:
    arguments = call.get("arguments")
    if arguments is None or arguments == "":
        return "{}" if as_text else {}
    where = f"message {index}: the arguments of the call of {call.get('name')!r}"
    parsed = arguments
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except json.JSONDecodeError as cause:
            raise ChatTemplateError(f"{where} are not JSON: {cause.msg} at character {cause.pos}") from cause
    if not isinstance(parsed, dict):
        raise ChatTemplateError(f"{where} are {json_kind(parsed)}, expected an object")
    if not as_text:
        return cast("dict[str, Any]", parsed)
    return arguments if isinstance(arguments, str) else json.dumps(parsed, ensure_ascii=False)


def plain_data(value: Any) -> Any:
    """Copy a value into plain dictionaries, lists, texts, numbers, booleans and None.

    Anything else (an image, an array) becomes a placeholder with its type's name: templates ask whether
    it is there, not what it is, and its methods are none of their business.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):  # pydantic models, as clients' libraries use them
        return plain_data(dump())
    return f"<{type(value).__name__}>"


def text_size(value: Any) -> int:
    """Characters of all texts in plain data."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return sum(len(key) + text_size(item) for key, item in items)
    if isinstance(value, list):
        return sum(text_size(item) for item in cast("list[Any]", value))
    return 8
