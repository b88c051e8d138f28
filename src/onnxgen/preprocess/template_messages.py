"""Messages as templates want them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from onnxgen.errors import ChatTemplateError
from onnxgen.foundations.json_text import json_kind
from onnxgen.preprocess.template_style import SHORT_ID_LENGTH, MessageStyle

_REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


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


def plain_tools(tools: Iterable[Any] | None) -> list[Any] | None:
    """Copy the definitions of tools likewise; None: there are none.

    Raises:
        ChatTemplateError: They are no list of mappings.
    """
    if tools is None:
        return None
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
        raise ChatTemplateError(f"tools must be a list of mappings, got {tools!r:.60}")
    result = [plain_data(tool) for tool in tools]
    for index, tool in enumerate(result):
        if not isinstance(tool, dict):
            raise ChatTemplateError(f"tool {index} is {json_kind(tool)}, expected a mapping that defines it")
    return result


def styled_messages(
    messages: Iterable[Mapping[str, Any]], style: MessageStyle, *, fold_system: bool = False
) -> list[dict[str, Any]]:
    """Bring plain messages into the form a template wants.

    Args:
        messages: As `plain_messages` gives them.
        style: What the template wants.
        fold_system: Where the template has no system role, put the text of system messages in front of the
            next message of the user.

    Raises:
        ChatTemplateError: The arguments of a tool call are not a JSON object; there is a system message,
            the template has no such role, and ``fold_system`` is not asked for.
    """
    messages = list(messages)
    if not style.has_system_role and any(message["role"] == "system" for message in messages):
        if not fold_system:
            raise ChatTemplateError(
                "this model's chat template has no system role; with fold_system=True the text of system messages "
                "goes in front of the user's"
            )
        messages = _folded(messages)
    return [_styled(message, index, style) for index, message in enumerate(messages)]


def _folded(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    result: list[Mapping[str, Any]] = []
    texts: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "system":
            content = message.get("content") or ""
            texts.append(
                _joined(cast("list[Any]", content), index) if isinstance(content, list) else str(content)
            )
        elif message["role"] == "user" and texts:
            result.append({**message, "content": _in_front("\n\n".join(texts), message.get("content"))})
            texts = []
        else:
            result.append(message)
    return [*result, {"role": "user", "content": "\n\n".join(texts)}] if texts else result


def _in_front(text: str, content: Any) -> Any:
    if isinstance(content, list):
        return [{"type": "text", "text": f"{text}\n\n"}, *cast("list[Any]", content)]
    return f"{text}\n\n{content}" if content else text


def _styled(message: Mapping[str, Any], index: int, style: MessageStyle) -> dict[str, Any]:
    # A null that clients send for an absent field would be taken for a value by many templates.
    result = {key: value for key, value in message.items() if value is not None}
    reasoning = next((result[key] for key in _REASONING_KEYS if key in result), None)
    if reasoning is not None:
        result = {"thinking": reasoning, **result, "reasoning_content": reasoning}
    calls = result.get("tool_calls")
    if isinstance(calls, list) and calls:
        calls = cast("list[Any]", calls)
        result["tool_calls"] = [
            _styled_call(call, index, style, call_id=f"{index:05}{n:04}") for n, call in enumerate(calls)
        ]
        result.setdefault("content", style.missing_content)
    else:
        result.setdefault("content", "")
    if style.short_ids and isinstance(result.get("tool_call_id"), str):
        result["tool_call_id"] = _short_id(result["tool_call_id"])
    if isinstance(result["content"], list) and not (style.takes_parts and _keeps_parts(result, style)):
        result["content"] = _joined(cast("list[Any]", result["content"]), index)
    elif isinstance(result["content"], str) and not style.takes_text:
        result["content"] = [{"type": "text", "text": result["content"]}]
    return result


def _keeps_parts(message: Mapping[str, Any], style: MessageStyle) -> bool:
    """Whether parts stay parts: in results of tools, many templates that know parts elsewhere show them as data."""
    parts = cast("list[Any]", message["content"])
    is_text = all(isinstance(part, dict) and isinstance(_text(part), str) for part in parts)  # pyright: ignore[reportUnknownArgumentType]
    return message["role"] != "tool" or not style.takes_text or not is_text


def _text(part: Mapping[str, Any]) -> Any:
    return part.get("text")


def _short_id(call_id: str) -> str:
    """The id itself if it has the form, else nine letters and digits that depend on it alone."""
    if len(call_id) == SHORT_ID_LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:SHORT_ID_LENGTH]


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


def _styled_call(call: Any, index: int, style: MessageStyle, *, call_id: str) -> Any:
    if not isinstance(call, dict):
        raise ChatTemplateError(f"message {index}: a tool call is {json_kind(call)}, expected an object")
    result = dict(cast("dict[str, Any]", call))
    if style.short_ids:
        given = result.get("id")
        result["id"] = _short_id(given) if isinstance(given, str) and given else call_id
    function = result.get("function")
    holder = dict(cast("dict[str, Any]", function)) if isinstance(function, dict) else result
    holder["arguments"] = _styled_arguments(holder, index, as_text=style.arguments_as_text)
    return {**result, "function": holder} if holder is not result else result


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


def odd_content(messages: Iterable[Mapping[str, Any]]) -> str | None:
    """Say which message has content that is neither text nor parts, which few templates take; None: none has."""
    for index, message in enumerate(messages):
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            return (
                f"message {index} ({message['role']}): its content is {json_kind(content)}, which this model's "
                "template does not take; give it as text, such as JSON"
            )
    return None


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
