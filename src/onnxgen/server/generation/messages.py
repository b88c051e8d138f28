"""`normalized_messages`: the messages of a request, with all that clients do differently, in the one form templates get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from onnxgen.foundations.json_text import json_kind
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.counts import check_count
from onnxgen.server.media import MediaCheck, MediaPolicy, check_media_part, is_media

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel
    from onnxgen.server.settings import ServerSettings

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT_PARTS = ("text", "input_text", "output_text")


def normalized_messages(
    messages: Sequence[Mapping[str, Any]],
    *,
    max_messages: int,
    media: MediaCheck | None,
    name: str = "messages",
) -> list[dict[str, Any]]:
    """Messages in the form chat templates get.

    ``developer`` is ``system``; content that is missing or null is the empty text, but for answers that only call
    tools; parts of text are ``{"type": "text", "text": ...}``; a refusal is what was answered; fields that are null,
    and those that no template knows, are left out. A message of a tool must say which call it answers.

    Args:
        messages: As they came.
        max_messages: The most that the operator allows.
        media: Judges images and sounds; None: that was done, where the request had them.
        name: The field of the request that they come from.

    Raises:
        ApiError: 400, naming the message and what is wrong with it.
    """
    if not messages:
        raise ApiError(400, f"{name} is empty; a conversation has at least one message", param=name)
    check_count(name, messages, max_messages)
    return [_normalized(message, f"{name}[{index}]", media) for index, message in enumerate(messages)]


def media_check(settings: ServerSettings, model: LoadedModel | None = None) -> MediaCheck:
    """What judges images and sounds for a model; None: for conversations that no model has read yet.

    Raises:
        ApiError: The model writes nothing.
    """
    senses = () if model is None else model.text.spec.senses
    return MediaCheck(MediaPolicy(allow_urls=settings.allow_media_urls), senses)


def _normalized(message: Mapping[str, Any], place: str, media: MediaCheck | None) -> dict[str, Any]:
    if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - routes may pass on what they got
        raise _wrong(place, f"{place} is {json_kind(message)}, expected an object with a role")
    role = message.get("role")
    if role not in _ROLES:
        hint = did_you_mean(role, _ROLES) if isinstance(role, str) else ""
        raise _wrong(
            f"{place}.role", f"{place}.role is {role!r:.60}{hint}; the roles are {', '.join(_ROLES)}"
        )
    result: dict[str, Any] = {"role": "system" if role == "developer" else role}
    content = _content(message.get("content"), f"{place}.content", media)
    if (name := message.get("name")) is not None:
        result["name"] = _text(name, f"{place}.name")
    if role == "tool":
        if not message.get("tool_call_id"):
            raise _wrong(
                f"{place}.tool_call_id",
                f"{place} has no tool_call_id; a tool's message says which call it answers",
            )
        result["tool_call_id"] = _text(message["tool_call_id"], f"{place}.tool_call_id")
    if role == "assistant":
        result |= _answer(message, place)
        content = content or _text(message.get("refusal") or "", f"{place}.refusal")
        if not content and "tool_calls" in result:
            return result  # templates differ in what they take for the content of an answer that only calls
    return {**result, "content": content}


def _answer(message: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What only an assistant's message has."""
    if message.get("function_call") is not None:
        raise _wrong(
            f"{place}.function_call", f"{place}.function_call is of an older API; give tool_calls instead"
        )
    result: dict[str, Any] = {}
    for name in ("reasoning_content", "reasoning"):
        if isinstance(reasoning := message.get(name), str) and reasoning:
            result["reasoning_content"] = reasoning
            break
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        return result
    if not isinstance(calls, list):
        raise _wrong(f"{place}.tool_calls", f"{place}.tool_calls is {json_kind(calls)}, expected a list")
    calls = cast("list[Any]", calls)
    result["tool_calls"] = [_call(call, f"{place}.tool_calls[{n}]") for n, call in enumerate(calls)]
    return result


def _call(call: Any, place: str) -> dict[str, Any]:
    function: Any = cast("Mapping[str, Any]", call).get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise _wrong(
            place, f"{place} must have a function with its name and arguments; no other calls are known"
        )
    call, function = cast("Mapping[str, Any]", call), cast("Mapping[str, Any]", function)
    name = _text(function.get("name"), f"{place}.function.name")
    arguments = function.get("arguments")
    if not isinstance(arguments, str | Mapping | None):
        raise _wrong(
            f"{place}.function.arguments",
            f"{place}.function.arguments is {json_kind(arguments)}, expected JSON text",
        )
    call_id = call.get("id")
    known = {} if call_id is None else {"id": _text(call_id, f"{place}.id")}
    return {
        **known,
        "type": "function",
        "function": {"name": name, "arguments": "{}" if arguments is None else arguments},
    }


def _content(content: Any, place: str, media: MediaCheck | None) -> str | list[dict[str, Any]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(place, f"{place} is {json_kind(content)}, expected a text or a list of parts")
    return [_part(part, f"{place}[{n}]", media) for n, part in enumerate(cast("list[Any]", content))]


def _part(part: Any, place: str, media: MediaCheck | None) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise _wrong(place, f"{place} is {json_kind(part)}, expected an object with a type")
    fields = cast("Mapping[str, Any]", part)
    kind = fields.get("type")
    if kind in _TEXT_PARTS:
        return {"type": "text", "text": _text(fields.get("text"), f"{place}.text")}
    if kind == "refusal":
        return {"type": "text", "text": _text(fields.get("refusal"), f"{place}.refusal")}
    if is_media(kind):
        if media is not None:
            check_media_part(fields, place, media)
        return dict(fields)
    raise _wrong(
        f"{place}.type", f"{place}.type is {kind!r:.60}; the types are text, refusal, image_url, input_audio"
    )


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _wrong(place, f"{place} is {json_kind(value)}, expected a text")
    return value


def _wrong(place: str, message: str) -> ApiError:
    return ApiError(400, message, param=place)
